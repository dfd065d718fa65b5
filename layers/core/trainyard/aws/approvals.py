"""Approvals in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins

from trainyard.aws import listing
from trainyard.aws.items import Item, number, pack, readable, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.approval_records import Approval
from trainyard.domain.listing import Wanted
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page

_PENDING, _DECIDED = "approvals#pending", "approvals#decided"
_SORT_KEY = "approval"


class TableApprovals:
    """The port `Approvals` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, approval: Approval) -> Approval:
        written = self._table.put(_item(approval), condition="attribute_not_exists(pk)")
        return approval if written else self.get(approval.id)

    def get(self, approval_id: str) -> Approval:
        item = self._table.get(_pk(approval_id), _SORT_KEY)
        if item is None:
            raise errors.ApprovalNotFound.of(approval_id)
        return _read(item)

    def put(self, approval: Approval) -> Approval:
        after = approval.changed(version=approval.version + 1, updated_at=self._clock.now())
        values = {":before": number(approval.version)}
        if not self._table.put(_item(after), condition="version = :before", values=values):
            raise errors.ConflictError(
                f"approval {approval.id} was changed by someone else since version "
                f"{approval.version}"
            )
        return after

    def list(
        self, *, limit: int, token: str | None, states: frozenset[str] = frozenset()
    ) -> Page[Approval]:
        wanted = Wanted(statuses=states)
        partitions = [_PENDING, _DECIDED]
        return listing.search(self._table, partitions, _read, wanted, limit=limit, token=token)

    def pending(self) -> builtins.list[Approval]:
        found = readable(_read, self._table.listed(_PENDING))
        return [approval for _, approval in found if not approval.over]


def _read(item: Item) -> Approval:
    return record_of(Approval, item)


def _pk(approval_id: str) -> str:
    return f"approval#{approval_id}"


def _item(approval: Approval) -> Item:
    return {
        "pk": text(_pk(approval.id)),
        "sk": text(_SORT_KEY),
        "doc": pack(approval),
        "version": number(approval.version),
        "gsi1pk": text(_DECIDED if approval.over else _PENDING),
        "gsi1sk": text(f"{stamp(approval.created_at)}#{approval.id}"),
        **listing.attributes(
            name=approval.subject,
            status=approval.state,
            cluster="",
            created_by=approval.requester,
        ),
    }
