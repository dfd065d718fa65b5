"""Facts that somebody's order is."""

from trainyard_contracts.events import Fact
from trainyard_contracts.people import Person


class CancelRequested(Fact):
    """A person wants this life of the run to end, or a schedule or an array does.

    `by`: None of the latter two, whose `reason` says who they are.
    """

    life: int
    by: Person | None = None
    reason: str = ""


class TeamBudgetSpent(Fact):
    """A budget that several runs share is used up, and this life of the run counts for it."""

    life: int
    budget: str
    reason: str


class ExportRequested(Fact):
    """A person wants an export of what this life has so far."""

    life: int
    by: Person | None = None


class ResumeRequested(Fact):
    """A person gave the ended run another life."""

    life: int
    by: Person | None = None
