"""Facts in the table: the same items for runs and clusters, recorded once by their event's id."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from trainyard.aws.items import Item, number, pack, text, unpack
from trainyard.aws.table import Table
from trainyard.domain.records import Fact

#: Longer lists of a fact lie in an item of their own: every decision reads all facts, and a list of thousands of names once an attempt.
_MOST_LISTED = 200
#: What a line of the timeline keeps of such a list.
_SHOWN = 16


class NodeNames(BaseModel):
    nodes: list[str]


def slim(fact: Fact) -> Fact:
    """The fact with how many nodes it names in place of a long list of their names."""
    names = fact.data.get("nodes")
    if not isinstance(names, list) or len(names) <= _MOST_LISTED or not all(isinstance(name, str) for name in names):
        return fact
    kept = {key: value for key, value in fact.data.items() if key != "nodes"}
    return fact.model_copy(update={"data": {**kept, "nodesCount": len(names), "nodesShown": names[:_SHOWN]}})


def names_item(pk: str, fact: Fact) -> Item:
    return {"pk": text(pk), "sk": text(f"nodes#{fact.id}"), "doc": pack(NodeNames(nodes=fact.data["nodes"]))}


def fact_item(pk: str, fact: Fact) -> Item:
    attempt = {} if fact.attempt is None else {"attempt": number(fact.attempt)}
    return {"pk": text(pk), "sk": text(f"fact#{fact.id}"), "doc": pack(fact), **attempt}


def read_facts(table: Table, pk: str, attempt: int | None = None) -> list[Fact]:
    """In order of `at`, then id; with an attempt, those of other attempts are left out."""
    only: dict[str, Any] = {}
    if attempt is not None:
        only = {"FilterExpression": "attribute_not_exists(attempt) OR attempt = :attempt", "values": {":attempt": number(attempt)}}
    found = [unpack(Fact, item) for item in table.query(pk, "fact#", **only)]
    found = sorted(found, key=lambda fact: (fact.at, fact.id))
    newest = max((fact.attempt for fact in found if fact.attempt is not None), default=None)
    newest_of_type = {fact.type: fact.id for fact in found if fact.attempt is None}
    asked = {fact.id for fact in found if fact.attempt is not None and fact.attempt == newest} | {*newest_of_type.values()}
    return [_whole(table, pk, fact) if fact.id in asked else fact for fact in found]


def _whole(table: Table, pk: str, fact: Fact) -> Fact:
    """Only the newest nodes are asked for: of the newest attempt, and of what else happened the last of its kind.

    Those of the others were read when they were new.
    """
    if "nodesCount" not in fact.data or "nodes" in fact.data:
        return fact
    item = table.get(pk, f"nodes#{fact.id}")
    if item is None:  # an older version did not keep them
        return fact
    return fact.model_copy(update={"data": {**fact.data, "nodes": unpack(NodeNames, item).nodes}})
