"""What people say of what waits for them."""

from __future__ import annotations

from trainyard.app.people.audited import Audited, raised
from trainyard.app.runs.approvals import decide_approval
from trainyard.domain.approval_records import Approval
from trainyard.domain.approvals import refusal_to_decide
from trainyard.domain.people import refusal


class OfApprovals(Audited):
    """Approve and deny."""

    def check_decides(self, approval: Approval) -> None:
        """Raises Forbidden for one who has no say in it; a word itself is checked when it comes."""
        config = self._ports.config
        raised(
            refusal(config.roles, self._by)
            or refusal_to_decide(config.approvals, config.roles, approval, self._by)
        )

    def decide_approval(self, approval_id: str, *, approve: bool, reason: str = "") -> Approval:
        """A refusal is in the audit list as each other one."""
        approval, reason = self._ports.approvals.get(approval_id), self._why(reason)
        config = self._ports.config
        refused = refusal(config.roles, self._by) or refusal_to_decide(
            config.approvals, config.roles, approval, self._by
        )
        return self._audited(
            self._entry(
                "approval.approve" if approve else "approval.deny",
                f"approval/{approval_id}",
                reason,
            ),
            refused,
            lambda: decide_approval(
                self._ports, approval_id, by=self._by, approve=approve, reason=reason
            ),
        )
