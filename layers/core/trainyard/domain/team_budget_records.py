"""What the table stores of a budget that several runs share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.records import Record
from trainyard_contracts.people import Person
from trainyard_contracts.team_budgets import TeamBudgetSpec


class Counted(Record):
    """What one run counts for in the period."""

    usd: float = 0.0
    going: bool = True
    unpriced: bool = False


class TeamAccount(Record):
    """What was spent of a budget in one period, as the sweep saw it last."""

    period: str = Field(description="such as 2026-11; 'total'")
    at: datetime = Field(description="up to this moment")
    settled_usd: float = Field(default=0.0, description="of runs that are not named any more")
    runs: dict[str, Counted] = Field(default_factory=dict)
    cluster_usd: float | None = Field(
        default=None, description="of a cluster, used and idle; null: its runs are added up"
    )
    hourly_usd: float = Field(default=0.0, description="what an hour costs now")
    tail_usd: float = Field(default=0.0, description="held back for the end of what goes on")
    unpriced: int = Field(default=0, description="things that count and whose price is not known")
    warned: list[float] = Field(default_factory=list, description="parts of which people heard")
    told_unpriced: bool = False
    spent_at_max: float | None = Field(
        default=None, description="the maxUsd with which it was used up; null: it was not"
    )

    @property
    def spent_usd(self) -> float:
        if self.cluster_usd is not None:
            return self.cluster_usd
        return self.settled_usd + sum(one.usd for one in self.runs.values())


class TeamBudget(Record):
    """A budget, and its account. A person writes the one, the sweep the other."""

    name: str
    spec: TeamBudgetSpec
    status: Literal["Active", "Deleted"] = "Active"
    revision: int = Field(default=1, description="of the spec")
    version: int = 0
    created_at: datetime
    created_by: Person | None = None
    updated_at: datetime
    account: TeamAccount | None = Field(default=None, description="null: the sweep has yet to look")

    def counts(self, labels: Mapping[str, str], cluster_name: str) -> bool:
        """Whether a run with these labels, on this cluster, counts."""
        if self.spec.cluster is not None:
            return cluster_name == self.spec.cluster
        key, _, value = (self.spec.label or "").partition("=")
        return labels.get(key) == value

    @property
    def whose(self) -> str:
        return self.spec.label or f"cluster '{self.spec.cluster}'"
