"""Facts in the table: the same items for runs and clusters, recorded once by their event's id."""

import logging
from datetime import datetime, timezone
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field

from trainyard.aws.items import BROKEN, Item, number, pack, text, unpack
from trainyard.aws.table import Table
from trainyard.domain import facts
from trainyard_contracts.base import Lenient
from trainyard_contracts.events import Fact

_LOG = logging.getLogger(__name__)
#: Longer lists of a fact have an item of their own: every decision reads all facts, but names only
#: once an attempt.
_MOST_LISTED = 200
#: What a line of the timeline keeps of such a list.
_SHOWN = 16
#: The type and the time of one whose document cannot be read: of its key alone no class is known.
_NO_TYPE, _LONG_AGO = "", datetime(1970, 1, 1, tzinfo=timezone.utc)


class Stored(Lenient):
    """A fact's document; `data` has its fields in camelCase.

    Of a long list of nodes it holds their number and the first of them.
    """

    id: str
    type: str
    at: AwareDatetime
    attempt: int | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class NodeNames(BaseModel):
    nodes: list[str]


def written(fact: Fact) -> tuple[Stored, list[str] | None]:
    """The fact as it goes into the table: its document, and the names that are too many."""
    stored = Stored(
        id=fact.id,
        type=facts.type_of(fact),
        at=fact.at,
        attempt=facts.attempt_of(fact),
        data=facts.data_of(fact),
    )
    names = stored.data.get("nodes")
    if (
        not isinstance(names, list)
        or len(names) <= _MOST_LISTED
        or not all(isinstance(name, str) for name in names)
    ):
        return stored, None
    kept = {key: value for key, value in stored.data.items() if key != "nodes"}
    return stored.changed(
        data={**kept, "nodesCount": len(names), "nodesShown": names[:_SHOWN]}
    ), names


def names_item(pk: str, fact_id: str, names: list[str]) -> Item:
    return {"pk": text(pk), "sk": text(f"nodes#{fact_id}"), "doc": pack(NodeNames(nodes=names))}


def fact_item(pk: str, stored: Stored) -> Item:
    attempt = {} if stored.attempt is None else {"attempt": number(stored.attempt)}
    return {"pk": text(pk), "sk": text(f"fact#{stored.id}"), "doc": pack(stored), **attempt}


def read_facts(table: Table, pk: str, attempt: int | None = None) -> list[Fact]:
    """In order of `at`, then id; with an attempt, those of other attempts are left out.

    One that cannot be read is Unreadable, and keeps no other from being read.
    """
    only: dict[str, Any] = {}
    if attempt is not None:
        only = {
            "FilterExpression": "attribute_not_exists(attempt) OR attempt = :attempt",
            "values": {":attempt": number(attempt)},
        }
    found = [_stored(item) for item in table.query(pk, "fact#", **only)]
    found = sorted(found, key=lambda fact: (fact.at, fact.id))
    newest = max((fact.attempt for fact in found if fact.attempt is not None), default=None)
    newest_of_type = {fact.type: fact.id for fact in found if fact.attempt is None}
    asked = {fact.id for fact in found if fact.attempt is not None and fact.attempt == newest} | {
        *newest_of_type.values()
    }
    return [_fact(_whole(table, pk, stored) if stored.id in asked else stored) for stored in found]


def _stored(item: Item) -> Stored:
    try:
        return unpack(Stored, item)
    except BROKEN:
        return _unread(item["sk"]["S"].removeprefix("fact#"))


def _unread(fact_id: str) -> Stored:
    return Stored(id=fact_id, type=_NO_TYPE, at=_LONG_AGO)


def _fact(stored: Stored) -> Fact:
    fact = facts.restored(stored.type, stored.id, stored.at, stored.attempt, stored.data)
    if isinstance(fact, facts.Unreadable):
        words = "fact %s of type %s cannot be read, and decides nothing"
        _LOG.error(words, stored.id, stored.type or "?")
    return fact


def _whole(table: Table, pk: str, stored: Stored) -> Stored:
    """Add the long list of nodes to a fact, which decisions need only of the newest facts.

    These are the facts of the newest attempt, and the last other fact of each kind. Decisions read
    the lists of older facts when these were new.
    """
    if "nodesCount" not in stored.data or "nodes" in stored.data:
        return stored
    item = table.get(pk, f"nodes#{stored.id}")
    if item is None:  # an older version did not keep them
        return stored
    try:
        names = unpack(NodeNames, item).nodes
    except BROKEN:
        return _unread(stored.id)
    return stored.changed(data={**stored.data, "nodes": names})
