"""Each minute: tell people's own rules what was decided since.

A notice lies in the table with what it tells. It goes to the bus first and is struck off then: a
death between the two sends it again with the same id, and none loses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainyard.app.sweep.swept import Swept
from trainyard.app.webhooks.deliver import enqueue
from trainyard.domain.errors import (
    BudgetNotFound,
    ClusterNotFound,
    RecordUnreadable,
    RunNotFound,
    TrainyardError,
)
from trainyard.domain.notices import Notice
from trainyard.domain.webhook_records import Webhook
from trainyard.outside.notices import UnsentNotice
from trainyard.ports import Ports
from trainyard_contracts.user_events import (
    ToldApproval,
    ToldBudget,
    ToldCluster,
    ToldRun,
    ToldWebhook,
    UserEvent,
)

#: So many notices a sweep, within its time limit.
NOTICES = 200


class Unsent(NamedTuple):
    """A notice, and the webhooks as they were when the sweep began."""

    notice: UnsentNotice
    webhooks: list[Webhook]


def unsent_notices(ports: Ports) -> Sequence[Unsent]:
    found = ports.notices.unsent(NOTICES)
    active = ports.webhooks.active() if found else []
    return [Unsent(notice, active) for notice in found]


def notice_step(ports: Ports, unsent: Unsent) -> Iterator[Swept]:
    """No line of the sweep's log: it is news of a run, and no repair.

    Deliveries first: a topic that is away delays no webhook. What it refused comes after what was
    not tried yet, so that webhooks hear of all that happens meanwhile.
    """
    event = event_of(ports, unsent.notice.notice)
    enqueue(ports, event, unsent.webhooks)
    try:
        ports.notices.send(event)
    except TrainyardError:
        ports.notices.postpone(unsent.notice, ports.clock.now())
        raise
    ports.notices.sent(unsent.notice)
    return iter(())


def event_of(ports: Ports, notice: Notice) -> UserEvent:
    """The event, with what rules are written about: names, owner, labels."""
    return UserEvent(
        id=notice.id,
        at=notice.at,
        type=notice.type,
        message=notice.message,
        run=_run(ports, notice) if notice.run_id else None,
        cluster=_cluster(ports, notice.cluster_name) if notice.cluster_name else None,
        approval=ToldApproval(id=notice.approval_id) if notice.approval_id else None,
        budget=_budget(ports, notice.budget_name) if notice.budget_name else None,
        webhook=ToldWebhook(id=notice.webhook_id) if notice.webhook_id else None,
    )


def _run(ports: Ports, notice: Notice) -> ToldRun:
    """A record that cannot be read keeps nobody from hearing of the run."""
    try:
        run = ports.runs.get(notice.run_id)
    except (RunNotFound, RecordUnreadable):
        return ToldRun(id=notice.run_id, attempt=notice.attempt)
    failed = notice.type == "run.failed" and run.problem is not None
    return ToldRun(
        id=run.id,
        name=run.name,
        owner=run.created_by.name if run.created_by else "",
        cluster=run.cluster_name or "",
        labels=run.labels,
        attempt=notice.attempt,
        problem=run.problem.code if failed and run.problem else "",
    )


def _cluster(ports: Ports, name: str) -> ToldCluster:
    try:
        return ToldCluster(name=name, run=ports.clusters.get(name).owner_run or "")
    except (ClusterNotFound, RecordUnreadable):
        return ToldCluster(name=name)


def _budget(ports: Ports, name: str) -> ToldBudget:
    try:
        spec = ports.team_budgets.get(name).spec
    except (BudgetNotFound, RecordUnreadable):
        return ToldBudget(name=name)
    return ToldBudget(name=name, label=spec.label or "", cluster=spec.cluster or "")
