"""The one DynamoDB table: keys, conditional writes and queries, in as few round trips as possible.

    pk                sk                         what
    run#<id>          run                        the run (doc, version)
    run#<id>          fact#<fact id>             a fact, once; a notice
    run#<id>          nodes#<fact id>            the node names of a fact of many
    run#<id>          line#<at>#<entry id>       a line of the timeline
    run#<id>          note#<entry id>            makes the same entry id a no-op; a notice
    run#<id>          ckpt#<step>#<attempt>      a checkpoint
    run#<id>          child#<id>                 a run that begins after it
    key#<sha256>      key                        an Idempotency-Key, TTL 24 h
    cluster#<name>    cluster                    the cluster, and when it was used
    cluster#<name>    fact#<fact id>             a fact of the cluster
    cluster#<name>    nodes#<fact id>            the node names of a fact of many
    cluster#<name>    notice#<notice id>         what people hear of it, once
    cluster#<name>    turns                      whose turn it is (doc, version)
    beat#<name>       <at>#<event id>            a heartbeat, TTL 7 days
    array#<id>        array                      an array of runs (doc, version)
    schedule#<name>   schedule                   a schedule (doc, version)
    approval#<id>     approval                   an approval (doc, version)
    filesystem#<name> filesystem                 a filesystem (doc, version)
    webhook#<id>      webhook                    a receiver of events (doc, version)
    webhook#<id>      delivery#<id>              an event for it (doc, version), TTL 30 days
    webhook#<id>      notice#<notice id>         what people hear of it
    budget#<name>     budget                     a budget that runs share (doc, version)
    budget#<name>     notice#<notice id>         what people hear of it, once
    wait#<owner>      wait                       a machine's task token
    audit#<month>     <at>#<entry id>            who changed what, TTL
    audit-id#<id>     once                       makes the same entry id a no-op, TTL
    slack#<sha256>    request                    a request of Slack, until when in hand, TTL
    slack#run-<id>    thread                     a run's thread in Slack (doc, version), TTL
    slack#pause       pause                      until when nothing is sent to Slack

The index has these keys:

    pk                gsi1pk                     gsi1sk
    run#<id>          runs#active|ended          <created>#<id>
    cluster#<name>    clusters#active|deleted    <created>#<name>
    array#<id>        arrays#active|ended        <created>#<id>
    schedule#<name>   schedules#active|deleted   <created>#<name>
    approval#<id>     approvals#pending|decided  <created>#<id>
    filesystem#<name> filesystems#active|deleted <created>#<name>
    webhook#<id>      webhooks#here|deleted      <created>#<id>
    webhook#<id>      deliveries#<id>            <due>#<delivery id>, while it waits for a try
    budget#<name>     budgets#here|deleted       <created>#<name>
    wait#<owner>      waits                      <owner>
    slack#run-<id>    slack-threads              <shown>#<id>, while it is open
    (any notice)      notices                    <at>#<notice id>, until it is sent
    (any notice)      notices#again              <tried>#<notice id>, after it was refused

It gives keys only; what is shown or decided on is then read consistently from the table. The index
`listed` has the same keys, and beside them what lists are filtered by (`listing.py`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from trainyard.aws.items import Item, Value, text
from trainyard.aws.refusals import code_of, translated
from trainyard.domain import errors

_BATCH = 100
_TRIES = 6


class Table:
    """A thin client of the table; every method raises only errors of our own tree."""

    def __init__(self, dynamodb: Any, name: str) -> None:
        self._dynamodb = dynamodb
        self.name = name

    def get(self, pk: str, sk: str) -> Item | None:
        """A consistent read."""
        with translated("read the table"):
            item: Item | None = self._dynamodb.get_item(
                TableName=self.name, Key=_key(pk, sk), ConsistentRead=True
            ).get("Item")
        return item

    def put(
        self, item: Item, *, condition: str | None = None, values: Mapping[str, Value] | None = None
    ) -> bool:
        """Write an item; False if the condition did not hold."""
        with translated("write the table"):
            return _held(
                self._dynamodb.put_item,
                TableName=self.name,
                Item=dict(item),
                **_condition(condition, values),
            )

    def update(
        self,
        pk: str,
        sk: str,
        expression: str,
        *,
        condition: str,
        values: Mapping[str, Value],
        names: Mapping[str, str] | None = None,
    ) -> bool:
        """Update an item in place; False if the condition did not hold.

        `names`: for attributes that DynamoDB has a word of its own for.
        """
        with translated("write the table"):
            return _held(
                self._dynamodb.update_item,
                TableName=self.name,
                Key=_key(pk, sk),
                UpdateExpression=expression,
                **_condition(condition, values),
                **({"ExpressionAttributeNames": dict(names)} if names else {}),
            )

    def delete(self, pk: str, sk: str, *, condition: str, values: Mapping[str, Value]) -> bool:
        """Delete an item; False if the condition did not hold."""
        with translated("write the table"):
            return _held(
                self._dynamodb.delete_item,
                TableName=self.name,
                Key=_key(pk, sk),
                **_condition(condition, values),
            )

    def new(
        self, item: Item, *, unless: str | None = None, values: Mapping[str, Value] | None = None
    ) -> dict[str, Any]:
        """A member of `transact`: write an item if there is none (or if `unless` holds)."""
        condition = "attribute_not_exists(pk)" + (f" OR {unless}" if unless else "")
        return {
            "Put": {"TableName": self.name, "Item": dict(item), **_condition(condition, values)}
        }

    def only_if(self, item: Item, *, condition: str, values: Mapping[str, Value]) -> dict[str, Any]:
        """A member of `transact` that writes an item if the condition holds."""
        return {
            "Put": {"TableName": self.name, "Item": dict(item), **_condition(condition, values)}
        }

    def change_if(
        self,
        pk: str,
        sk: str,
        expression: str,
        *,
        condition: str,
        values: Mapping[str, Value],
        names: Mapping[str, str],
    ) -> dict[str, Any]:
        """A member of `transact` that changes an item if the condition holds."""
        return {
            "Update": {
                "TableName": self.name,
                "Key": _key(pk, sk),
                "UpdateExpression": expression,
                "ExpressionAttributeNames": dict(names),
                **_condition(condition, values),
            }
        }

    def always(self, item: Item) -> dict[str, Any]:
        """A member of `transact` that writes an item whatever is there."""
        return {"Put": {"TableName": self.name, "Item": dict(item)}}

    def transact(self, *writes: dict[str, Any]) -> list[int]:
        """All or nothing; returns the positions whose condition failed, [] if all was written."""
        for _ in range(_TRIES):
            with translated("write the table"):
                reasons = self._try(writes)
            if "TransactionConflict" not in reasons:
                return [
                    position
                    for position, reason in enumerate(reasons)
                    if reason == "ConditionalCheckFailed"
                ]
            time.sleep(random.uniform(0.01, 0.08))
        raise errors.RetryableError("others keep writing the same items of the table")

    def _try(self, writes: Sequence[dict[str, Any]]) -> list[str]:
        try:
            self._dynamodb.transact_write_items(TransactItems=list(writes))
        except ClientError as refusal:
            reasons = [
                str(reason.get("Code"))
                for reason in refusal.response.get("CancellationReasons", [])
            ]
            if code_of(refusal) != "TransactionCanceledException" or not {
                "ConditionalCheckFailed",
                "TransactionConflict",
            } & set(reasons):
                raise
            return reasons
        return []

    def query(
        self,
        pk: str,
        prefix: str,
        *,
        after: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        **more: Any,
    ) -> list[Item]:
        """Items of a partition whose sort key begins with `prefix`, beyond the sort key `after`."""
        request = {
            "TableName": self.name,
            "KeyConditionExpression": "pk = :pk AND begins_with(sk, :sk)",
            "ExpressionAttributeValues": {
                ":pk": text(pk),
                ":sk": text(prefix),
                **more.pop("values", {}),
            },
            "ConsistentRead": True,
            "ScanIndexForward": not newest_first,
            **({"ExclusiveStartKey": _key(pk, after)} if after else {}),
            **more,
        }
        return list(islice(self._pages(request, limit), limit))

    def between(self, pk: str, first: str, last: str, *, limit: int) -> list[Item]:
        """The last `limit` items of a partition, sort keys from `first` to `last`, newest first."""
        request = {
            "TableName": self.name,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
            "ExpressionAttributeValues": {
                ":pk": text(pk),
                ":first": text(first),
                ":last": text(last),
            },
            "ScanIndexForward": False,
        }
        return list(islice(self._pages(request, limit), limit))

    def listed(self, partition: str) -> list[tuple[str, Item]]:
        """(index sort key, item) of a partition of the index, newest first."""
        keys = list(self._index(partition))
        found = {
            item["pk"]["S"]: item
            for item in self.batch_get([(key["pk"]["S"], key["sk"]["S"]) for key in keys])
        }
        return [
            (_index_order(key), found[key["pk"]["S"]]) for key in keys if key["pk"]["S"] in found
        ]

    def indexed(self, partition: str, *, at_most: int) -> list[Item]:
        """Items of a partition of the index, oldest first; several may have one partition key."""
        keys = islice(self._index(partition, newest_first=False), at_most)
        return sorted(
            self.batch_get([(key["pk"]["S"], key["sk"]["S"]) for key in keys]),
            key=lambda item: item.get("gsi1sk", text(""))["S"],
        )

    def page(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One answer to a query as DynamoDB gives it: at most 1 MB was read for it."""
        with translated("read the table"):
            answer: dict[str, Any] = self._dynamodb.query(TableName=self.name, **request)
        return answer

    def batch_get(self, keys: Sequence[tuple[str, str]]) -> Iterator[Item]:
        """Consistent reads of many items, in any order; missing ones are left out."""
        for begin in range(0, len(keys), _BATCH):
            wanted: dict[str, Any] = {
                self.name: {
                    "Keys": [_key(*key) for key in dict.fromkeys(keys[begin : begin + _BATCH])],
                    "ConsistentRead": True,
                }
            }
            while wanted:
                with translated("read the table"):
                    answer = self._dynamodb.batch_get_item(RequestItems=wanted)
                yield from answer["Responses"].get(self.name, [])
                wanted = answer.get("UnprocessedKeys") or {}

    def _index(self, partition: str, *, newest_first: bool = True) -> Iterator[Item]:
        request = {
            "TableName": self.name,
            "IndexName": "gsi1",
            "KeyConditionExpression": "gsi1pk = :pk",
            "ExpressionAttributeValues": {":pk": text(partition)},
            "ProjectionExpression": "pk, sk, gsi1sk",
            "ScanIndexForward": not newest_first,
        }
        return self._pages(request, None)

    def ids(self, partition: str, prefix: str, *, at_most: int) -> list[str]:
        """Partition keys of the table that begin so, of a partition of the index, newest first."""
        found = (key["pk"]["S"] for key in self._index(partition))
        return list(islice((pk for pk in found if pk.startswith(prefix)), at_most))

    def _pages(self, request: dict[str, Any], limit: int | None) -> Iterator[Item]:
        if limit is not None and "FilterExpression" not in request:
            request = {**request, "Limit": limit}
        while True:
            with translated("read the table"):
                answer = self._dynamodb.query(**request)
            yield from answer["Items"]
            if not (last := answer.get("LastEvaluatedKey")):
                return
            request = {**request, "ExclusiveStartKey": last}


def _index_order(key: Item) -> str:
    return str(key["gsi1sk"]["S"])


def _key(pk: str, sk: str) -> dict[str, Value]:
    return {"pk": text(pk), "sk": text(sk)}


def _condition(condition: str | None, values: Mapping[str, Value] | None) -> dict[str, Any]:
    return ({"ConditionExpression": condition} if condition else {}) | (
        {"ExpressionAttributeValues": dict(values)} if values else {}
    )


def _held(call: Any, **request: Any) -> bool:
    try:
        call(**request)
    except ClientError as refusal:
        if code_of(refusal) == "ConditionalCheckFailedException":
            return False
        raise
    return True
