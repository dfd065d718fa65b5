"""Budgets that runs share, in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime, timedelta

from trainyard.aws import listing, notices
from trainyard.aws.items import Item, number, pack, readable, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.listing import Wanted
from trainyard.domain.notices import Notice
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page

_HERE, _DELETED = "budgets#here", "budgets#deleted"
_SORT_KEY = "budget"
#: One that is removed is kept so long: what wrote it before finds its version.
_KEPT = timedelta(days=30)


class TableTeamBudgets:
    """The port `TeamBudgets` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, budget: TeamBudget) -> TeamBudget:
        written = self._table.put(_item(budget), condition="attribute_not_exists(pk)")
        return budget if written else self.get(budget.name)

    def get(self, name: str) -> TeamBudget:
        item = self._table.get(_pk(name), _SORT_KEY)
        if item is None:
            raise errors.BudgetNotFound.of(name)
        return _read(item)

    def put(self, budget: TeamBudget, told: Sequence[Notice] = ()) -> TeamBudget:
        after = budget.changed(version=budget.version + 1, updated_at=self._clock.now())
        values = {":before": number(budget.version)}
        write = self._table.only_if(_item(after), condition="version = :before", values=values)
        fresh = [one for one in told if self._table.get(_pk(budget.name), _told(one)) is None]
        new = [self._table.new(_notice_item(budget.name, one)) for one in fresh]
        if self._table.transact(write, *new):
            raise errors.ConflictError(
                f"budget {budget.name} was changed by someone else since version {budget.version}"
            )
        return after

    def list(self, *, limit: int, token: str | None) -> Page[TeamBudget]:
        wanted = Wanted(statuses=frozenset({"Active"}))
        return listing.search(self._table, [_HERE], _read, wanted, limit=limit, token=token)

    def active(self) -> builtins.list[TeamBudget]:
        found = readable(_read, self._table.listed(_HERE))
        return [budget for _, budget in found if budget.status == "Active"]


def _read(item: Item) -> TeamBudget:
    return record_of(TeamBudget, item)


def _pk(name: str) -> str:
    return f"budget#{name}"


def _told(notice: Notice) -> str:
    return f"notice#{notice.id}"


def _notice_item(name: str, notice: Notice) -> Item:
    key = {"pk": text(_pk(name)), "sk": text(_told(notice))}
    return {**key, **notices.attributes(notice)}


def _item(budget: TeamBudget) -> Item:
    deleted = budget.status == "Deleted"
    return {
        "pk": text(_pk(budget.name)),
        "sk": text(_SORT_KEY),
        "doc": pack(budget),
        "version": number(budget.version),
        "gsi1pk": text(_DELETED if deleted else _HERE),
        "gsi1sk": text(f"{stamp(budget.created_at)}#{budget.name}"),
        **(_expires(budget.updated_at) if deleted else {}),
        **listing.attributes(
            name=budget.name,
            status=budget.status,
            cluster=budget.spec.cluster or "",
            created_by=budget.created_by,
        ),
    }


def _expires(since: datetime) -> Item:
    return {"expiresAt": number(int((since + _KEPT).timestamp()))}
