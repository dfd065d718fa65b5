"""Where a word is kept in a local cloud: in its table, bucket, queues, histories and logs."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tests.support.system import System

from trainyard_contracts import packed

Kept = Iterator[tuple[str, bytes]]
#: What a function packed within a larger text.
_PACKED = re.compile(r"packed:[A-Za-z0-9+/=]+")


def places_with(system: System, *words: str) -> dict[str, set[str]]:
    """By word `KIND NAME` of each thing that holds it; KIND is one of the names in `KINDS`."""
    found: dict[str, set[str]] = {word: set() for word in words}
    for kind, all_of in KINDS.items():
        for name, body in all_of(system):
            for word in words:
                if word.encode() in body:
                    found[word].add(f"{kind} {name}")
    return found


def assert_secret(system: System, secret: str, run_id: str) -> None:
    """The secret is kept nowhere there; the run's id, which is none, is found by such a look."""
    found = places_with(system, secret, run_id)
    assert found[secret] == set()
    kinds = {place.partition(" ")[0] for place in found[run_id]}
    assert kinds >= {"row", "object", "history", "log"}


def _rows(system: System) -> Kept:
    pages = system.table.get_paginator("scan")
    for page in pages.paginate(TableName=system.local["resources"]["Table"]):
        for item in page["Items"]:
            name = "/".join(str(item[key].get("S")) for key in ("pk", "sk"))
            for value in item.values():
                yield name, _plain(bytes(value["B"])) if "B" in value else str(value).encode()


def _objects(system: System) -> Kept:
    """Each version, also of what was deleted."""
    s3, bucket = system.aws("s3"), system.local["bucket"]
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for found in page.get("Versions", []):
            key, version = found["Key"], found["VersionId"]
            given = {"VersionId": version} if version != "null" else {}
            with suppress(s3.exceptions.NoSuchKey):
                yield key, _plain(s3.get_object(Bucket=bucket, Key=key, **given)["Body"].read())


def _messages(system: System) -> Kept:
    """They stay where they are."""
    sqs = system.aws("sqs")
    for url in sqs.list_queues().get("QueueUrls", []):
        seen: set[str] = set()
        while True:
            got = sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                VisibilityTimeout=0,
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if not {message["MessageId"] for message in got} - seen:
                break
            for message in got:
                seen.add(message["MessageId"])
                yield url, _unpacked(message)


def _histories(system: System) -> Kept:
    machines = system.aws("stepfunctions")
    for machine in machines.list_state_machines()["stateMachines"]:
        arn = machine["stateMachineArn"]
        for page in machines.get_paginator("list_executions").paginate(stateMachineArn=arn):
            for execution in page["executions"]:
                pages = machines.get_paginator("get_execution_history")
                for events in pages.paginate(executionArn=execution["executionArn"]):
                    yield execution["executionArn"], _unpacked(events["events"])


def _lines(system: System) -> Kept:
    """What functions logged."""
    logs = system.aws("logs")
    for group in logs.describe_log_groups()["logGroups"]:
        name = group["logGroupName"]
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=name):
            yield name, _unpacked(page["events"])


def _plain(body: bytes) -> bytes:
    """What it is once it is decompressed, if it is compressed at all."""
    for read in (gzip.decompress, zlib.decompress):
        with suppress(OSError, EOFError, zlib.error):
            return read(body)
    return body


def _unpacked(found: Any) -> bytes:
    text = json.dumps(found, default=str)
    with suppress(packed.NotWhole):
        text += "".join(packed.unpack(part) for part in _PACKED.findall(text))
    return text.encode()


KINDS = {
    "row": _rows,
    "object": _objects,
    "message": _messages,
    "history": _histories,
    "log": _lines,
}
