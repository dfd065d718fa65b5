"""Which of a run's lines and a cluster's changes reach people's own rules."""

from typing import Any

from pydantic import AwareDatetime

from trainyard.domain.problems import brief
from trainyard.domain.records import Cluster, Record, TimelineEntry
from trainyard_contracts.user_events import UserEventType

#: By kind and type of the line.
_LINES: dict[tuple[str, str], UserEventType] = {
    ("status", "Accepted"): "run.submitted",
    ("fact", "AttemptStarted"): "run.started",
    ("status", "Resumed"): "run.recovered",
    ("status", "Succeeded"): "run.finished",
    ("status", "Failed"): "run.failed",
    ("status", "Cancelled"): "run.cancelled",
    ("status", "BudgetWarned"): "run.budget",
    ("decision", "BudgetExhausted"): "run.budget",
    ("decision", "ApprovalNeeded"): "approval.needed",
    ("decision", "Approved"): "approval.approved",
    ("decision", "ApprovalDenied"): "approval.denied",
    ("decision", "ApprovalExpired"): "approval.expired",
}
_CLUSTERS: dict[str, UserEventType] = {
    "Ready": "cluster.ready",
    "Failed": "cluster.failed",
    "Deleted": "cluster.deleted",
}
#: An event has 256 KB; a reason may hold the end of a log.
MESSAGE_CHARACTERS = 2000


class Notice(Record):
    """A line or a change as it was when it was decided. Its id is that of the event."""

    id: str
    at: AwareDatetime
    type: UserEventType
    message: str
    run_id: str = ""
    cluster_name: str = ""
    attempt: int | None = None
    approval_id: str = ""
    webhook_id: str = ""
    budget_name: str = ""


def of_line(run_id: str, line: TimelineEntry) -> Notice | None:
    """None of a line that reaches nobody."""
    type_ = _LINES.get((line.kind, line.type))
    if type_ is None:
        return None
    approval = line.data.get("approvalId", "")
    about = {"run_id": run_id, "attempt": line.attempt, "approval_id": approval}
    return _notice(f"{run_id}/{line.id}", line, type_, **about)


def of_cluster(cluster: Cluster) -> Notice | None:
    """None in a status that reaches nobody. Once for a generation: a start is no making."""
    type_ = _CLUSTERS.get(cluster.status)
    if type_ is None:
        return None
    why = f": {brief(cluster.problem)}" if cluster.status == "Failed" and cluster.problem else "."
    return Notice(
        id=f"{cluster.name}/{cluster.generation}/{type_}",
        at=cluster.updated_at,
        type=type_,
        message=f"Cluster '{cluster.name}' is {cluster.status}{why}"[:MESSAGE_CHARACTERS],
        cluster_name=cluster.name,
    )


def _notice(id_: str, line: TimelineEntry, type_: UserEventType, **about: Any) -> Notice:
    message = line.message[:MESSAGE_CHARACTERS]
    return Notice(id=id_, at=line.at, type=type_, message=message, **about)
