"""What people's own rules hear of, on the stage's bus, with source `trainyard`."""

from typing import Final, Literal

from pydantic import AwareDatetime, Field

from .base import Lenient

SOURCE: Final = "trainyard"
#: Of our own hints that another state of a run is stored; no rule of people's should build on it.
CHANGES: Final = "trainyard.changes"

UserEventType = Literal[
    "run.submitted",
    "run.started",
    "run.recovered",
    "run.finished",
    "run.failed",
    "run.cancelled",
    "run.budget",
    "approval.needed",
    "approval.approved",
    "approval.denied",
    "approval.expired",
    "cluster.ready",
    "cluster.failed",
    "cluster.idle",
    "cluster.deleted",
    "budget.warned",
    "budget.exhausted",
    "webhook.disabled",
]

#: When each is sent; the key is the event's detail-type.
USER_EVENTS: dict[UserEventType, str] = {
    "run.submitted": "a run was accepted",
    "run.started": "the job of an attempt began; `run.attempt` is 1 for the first",
    "run.recovered": "training goes on after a fault",
    "run.finished": "the run ended with success",
    "run.failed": "the run ended without success; `run.problem` is why",
    "run.cancelled": "the run ended because a person wanted it",
    "run.budget": "a part of the run's budget is spent, or all that it may spend",
    "approval.needed": "a run waits for people; `approval.id` is what they decide on",
    "approval.approved": "the run goes on with its approval",
    "approval.denied": "the run ends, for a person denied it",
    "approval.expired": "the run ends, for nobody approved it in time",
    "cluster.ready": "a cluster takes runs, for the first time since it was made",
    "cluster.failed": "a cluster could not be made; it is deleted",
    "cluster.idle": "nobody uses a cluster; half of `idleLimitSeconds` is over, and it is deleted "
    "at their end",
    "cluster.deleted": "a cluster is gone",
    "budget.warned": "a part of a budget that runs share is spent, or a price in it is not known",
    "budget.exhausted": "a budget that runs share is used up; they are stopped and saved",
    "webhook.disabled": "a receiver took nothing for a day, or wants nothing more",
}

Severity = Literal["info", "warning", "error"]

#: `error` needs a person, `warning` may. All others are `info`.
SEVERITIES: Final[dict[UserEventType, Severity]] = {
    "run.failed": "error",
    "cluster.failed": "error",
    "webhook.disabled": "error",
    "budget.exhausted": "error",
    "budget.warned": "warning",
    "run.budget": "warning",
    "cluster.idle": "warning",
    "approval.needed": "warning",
    "approval.denied": "warning",
    "approval.expired": "warning",
}


class ToldRun(Lenient):
    """The run that an event is about."""

    id: str
    name: str = Field(default="", description="'' if its record could not be read")
    owner: str = Field(default="", description="name of the person whose run it is")
    cluster: str = Field(default="", description="name of its cluster")
    labels: dict[str, str] = Field(default_factory=dict)
    attempt: int | None = None
    problem: str = Field(default="", description="code of the problem with which it ended")


class ToldCluster(Lenient):
    """The cluster that an event is about."""

    name: str
    run: str = Field(default="", description="id of the run that it was made for")


class ToldApproval(Lenient):
    """The approval that an event is about."""

    id: str


class ToldBudget(Lenient):
    """The shared budget that an event is about; a run's own comes with the run."""

    name: str
    label: str = Field(default="", description="KEY=VALUE that its runs carry")
    cluster: str = Field(default="", description="whose budget it is, if it is a cluster's")


class ToldWebhook(Lenient):
    """The webhook that an event is about."""

    id: str


class UserEvent(Lenient):
    """The detail of an event. It may come twice with the same `id`, late, and out of order."""

    id: str = Field(description="the same for all copies of one event")
    at: AwareDatetime = Field(description="when it happened")
    type: str = Field(description="as the detail-type")
    message: str = Field(description="a sentence for people; jobs and people wrote parts of it")
    run: ToldRun | None = None
    cluster: ToldCluster | None = None
    approval: ToldApproval | None = None
    budget: ToldBudget | None = None
    webhook: ToldWebhook | None = None
