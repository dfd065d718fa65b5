"""Each minute: approvals whose run is over, and those that expired while their run slept on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.app.facts.waking import wake_run
from trainyard.app.runs.approvals import is_waited_for, withdraw
from trainyard.app.sweep.swept import Swept
from trainyard.domain.approval_records import Approval
from trainyard.ports import Ports


def pending_approvals(ports: Ports) -> Sequence[Approval]:
    return ports.approvals.pending()


def approval_step(ports: Ports, approval: Approval) -> Iterator[Swept]:
    """The run's own decision writes down that its approval has expired."""
    if not is_waited_for(ports, approval):
        withdraw(ports, approval.id)
        yield Swept("approval withdrawn", approval.id, f"{approval.subject} is over")
    elif approval.expired_at(ports.clock.now()) and wake_run(ports, approval.run_id):
        yield Swept("woken", approval.run_id, f"approval {approval.id} has expired")
