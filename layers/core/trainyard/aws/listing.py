"""Lists of records that are asked for by more than their time, read from the index `listed`.

An entry of the index holds what lists are filtered by, so a page costs what its entries cost and
not what whole records do. DynamoDB filters after it read, so one request reads a bounded number of
pages: one that finds little ends early, and its token goes on from there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from trainyard.aws import page_tokens
from trainyard.aws.items import Item, Value, readable, stamp, text
from trainyard.aws.table import Table
from trainyard.domain.approval_records import Approval
from trainyard.domain.array_records import RunArray
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.listing import Wanted, matches
from trainyard.domain.records import Cluster, Run
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.domain.webhook_records import Webhook
from trainyard.outside.pages import Page
from trainyard_contracts.people import Person

INDEX = "listed"
#: DynamoDB's answers that one request may read of a partition; each has 1 MB at most.
MOST_PAGES = 6
#: Looks for the rest of a page, where records are not what the index says, or cannot be read.
_ROUNDS = 3
#: Entries of a first page of a filtered list, for each entry that is wanted.
_FIRST = 4
#: Each further page reads so many times more.
_GROWTH = 10
#: More entries than 1 MB holds.
_MOST_ENTRIES = 10_000
#: Sorts after every stamp.
_LAST = "~"

M = TypeVar("M", Run, Cluster, Filesystem, RunArray, Schedule, Approval, Webhook, TeamBudget)


class Found(NamedTuple):
    """An entry, or with `key` None the place at which a walk gave up for this request."""

    position: str  # the index's sort key
    key: tuple[str, str] | None


def attributes(
    *,
    name: str,
    status: str,
    cluster: str,
    labels: Mapping[str, str] | None = None,
    created_by: Person | None,
) -> dict[str, Value]:
    """What the index holds of a record beside its keys."""
    person = (
        {"id": created_by.id, "arn": created_by.arn, "name": created_by.name} if created_by else {}
    )
    return {
        "createdBy": {"M": {key: text(value) for key, value in person.items()}},
        "name": text(name),
        "status": text(status),
        "cluster": text(cluster),
        "labels": {"M": {key: text(value) for key, value in (labels or {}).items()}},
    }


def search(
    table: Table,
    partitions: Sequence[str],
    read: Callable[[Item], M],
    wanted: Wanted,
    *,
    limit: int,
    token: str | None,
) -> Page[M]:
    """One page of what is wanted. Raises errors.BadPageToken for a token of another list."""
    query = (partitions[0].partition("#")[0], wanted.digest)
    position = page_tokens.decode(query, token)
    records: list[M] = []
    for _ in range(_ROUNDS):
        asked = limit - len(records)
        found, position = find(table, partitions, wanted, after=position, limit=asked)
        read_now = _records(table, found, read)
        records += [record for record in read_now if matches(wanted, record)]
        if position is None or len(found) < asked or len(records) == limit:
            break
    more = page_tokens.encode(query, position) if position is not None else None
    return Page(records, more)


def _records(table: Table, found: Sequence[Found], read: Callable[[Item], M]) -> list[M]:
    """The records of these entries, without what this version cannot read."""
    keys = {one.key: one.position for one in found if one.key is not None}
    items = {item["pk"]["S"]: item for item in table.batch_get(list(keys))}
    there = [(at, items[pk]) for (pk, _), at in keys.items() if pk in items]
    return [record for _, record in readable(read, there)]


def find(
    table: Table, partitions: Sequence[str], wanted: Wanted, *, after: str | None, limit: int
) -> tuple[list[Found], str | None]:
    """Up to `limit` entries beyond the position `after`, and the position to go on from.

    None for that: there is nothing more. The index is late by a moment, so what is found is judged
    once more by the record itself.
    """
    walks = [_walk(table, name, wanted, after, limit) for name in partitions]
    found: list[Found] = []
    merged = heapq.merge(*walks, key=lambda one: one.position, reverse=wanted.newest_first)
    for one in merged:
        if one.key is None:
            return found, one.position
        if found and found[-1].position == one.position:
            continue  # it moved from one partition to the other just now
        if len(found) == limit:
            return found, found[-1].position
        found.append(one)
    return found, None


def _walk(
    table: Table, partition: str, wanted: Wanted, after: str | None, limit: int
) -> Iterator[Found]:
    first, last = _bounds(wanted, after)
    if first > last:
        return
    request = _request(partition, first, last, wanted)
    size = (limit + 1) * (_FIRST if wanted.filters else 1) + 1
    for _ in range(MOST_PAGES):
        answer = table.page({**request, "Limit": min(size, _MOST_ENTRIES)})
        for entry in answer["Items"]:
            if (position := _position(entry)) != after:
                yield Found(position, (entry["pk"]["S"], entry["sk"]["S"]))
        if not (end := answer.get("LastEvaluatedKey")):
            return
        request, size = {**request, "ExclusiveStartKey": end}, size * _GROWTH
    yield Found(_position(request["ExclusiveStartKey"]), None)


def _position(entry: Item) -> str:
    return str(entry["gsi1sk"]["S"])


def _bounds(wanted: Wanted, after: str | None) -> tuple[str, str]:
    """The first and the last sort key that may be wanted; `after` itself is passed over later."""
    first = stamp(wanted.since) if wanted.since else ""
    last = stamp(wanted.until) if wanted.until else _LAST
    if after is None:
        return first, last
    return (first, min(last, after)) if wanted.newest_first else (max(first, after), last)


def _request(partition: str, first: str, last: str, wanted: Wanted) -> dict[str, Any]:
    conditions, names, values = _conditions(wanted)
    low = first or "0"
    filtered: dict[str, Any] = {}
    if conditions:
        # An entry of an older version lacks what is asked for: the record is looked at instead.
        # AND binds before OR, and DynamoDB refuses brackets that are not needed.
        every = " AND ".join(conditions)
        filtered = {
            "FilterExpression": f"attribute_not_exists(#status) OR {every}",
            "ExpressionAttributeNames": {"#status": "status", **names},
        }
    return {
        "IndexName": INDEX,
        "KeyConditionExpression": "gsi1pk = :pk AND gsi1sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": text(partition), ":first": text(low), ":last": text(last), **values,
        },
        "ScanIndexForward": not wanted.newest_first,
        **filtered,
    }  # fmt: skip


def _conditions(wanted: Wanted) -> tuple[list[str], dict[str, str], dict[str, Value]]:
    conditions: list[str] = []
    names: dict[str, str] = {}
    values: dict[str, Value] = {}
    if wanted.statuses:
        given = {f":status{at}": text(one) for at, one in enumerate(sorted(wanted.statuses))}
        values |= given
        conditions.append(f"#status IN ({', '.join(given)})")
    if wanted.name:
        names["#name"] = "name"
        begins = wanted.begins
        values[":name"] = text(wanted.name if begins is None else begins)
        conditions.append("#name = :name" if begins is None else "begins_with(#name, :name)")
    if wanted.cluster:
        names["#cluster"], values[":cluster"] = "cluster", text(wanted.cluster)
        conditions.append("#cluster = :cluster")
    if wanted.owner is not None:  # its id may not be known; the record says which is right
        names |= {"#by": "createdBy", "#id": "id", "#arn": "arn"}
        values |= {":id": text(wanted.owner.id), ":arn": text(wanted.owner.arn)}
        conditions.append("(#by.#id = :id OR #by.#arn = :arn)")
    if wanted.created_by:
        names |= {"#by": "createdBy", "#name": "name", "#arn": "arn"}
        values[":by"] = text(wanted.created_by)
        conditions.append("(#by.#name = :by OR #by.#arn = :by)")
    for at, (key, value) in enumerate(wanted.labels):
        names |= {"#labels": "labels", f"#label{at}": key}
        if value is None:
            conditions.append(f"attribute_exists(#labels.#label{at})")
        else:
            values[f":label{at}"] = text(value)
            conditions.append(f"#labels.#label{at} = :label{at}")
    return conditions, names, values
