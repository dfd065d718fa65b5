"""The approvals in the table."""

from __future__ import annotations

import builtins
from typing import Protocol

from trainyard.domain.approval_records import Approval
from trainyard.outside.pages import Page


class Approvals(Protocol):
    """Approvals, which are decided once and stay."""

    def create(self, approval: Approval) -> Approval:
        """Store it, or answer with the one that is there by its id."""
        ...

    def get(self, approval_id: str) -> Approval:
        """Raises errors.ApprovalNotFound, errors.RecordUnreadable."""
        ...

    def put(self, approval: Approval) -> Approval:
        """As Runs.put."""
        ...

    def list(
        self, *, limit: int, token: str | None, states: frozenset[str] = frozenset()
    ) -> Page[Approval]:
        """As Runs.list; without states, all."""
        ...

    def pending(self) -> builtins.list[Approval]:
        """Every one that nobody decided and that this version can read."""
        ...
