"""Facts in the table: the same items for runs and clusters, recorded once by their event's id."""

from __future__ import annotations

from typing import Any

from trainyard.aws.items import Item, number, pack, text, unpack
from trainyard.aws.table import Table
from trainyard.domain.records import Fact


def fact_item(pk: str, fact: Fact) -> Item:
    attempt = {} if fact.attempt is None else {"attempt": number(fact.attempt)}
    return {"pk": text(pk), "sk": text(f"fact#{fact.id}"), "doc": pack(fact), **attempt}


def read_facts(table: Table, pk: str, attempt: int | None = None) -> list[Fact]:
    """In order of `at`, then id; with an attempt, those of other attempts are left out."""
    only: dict[str, Any] = {}
    if attempt is not None:
        only = {"FilterExpression": "attribute_not_exists(attempt) OR attempt = :attempt", "values": {":attempt": number(attempt)}}
    found = [unpack(Fact, item) for item in table.query(pk, "fact#", **only)]
    return sorted(found, key=lambda fact: (fact.at, fact.id))
