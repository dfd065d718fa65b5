"""The items of a run in the table."""

from __future__ import annotations

import hashlib
import json
import zlib
from datetime import timedelta

from pydantic import ValidationError

from trainyard.aws import listing, notices
from trainyard.aws.items import Item, document, number, pack, record_of, stamp, text, unreadable
from trainyard.domain.notices import of_line
from trainyard.domain.records import Checkpoint, Run, TimelineEntry

ACTIVE, ENDED = "runs#active", "runs#ended"
IDEMPOTENCY_LIFETIME = timedelta(hours=24)
CHILD = "child#"


def pk_of(run_id: str) -> str:
    return f"run#{run_id}"


def run_of(item: Item) -> Run:
    return record_of(Run, item)


def named_cluster(item: Item) -> str | None:
    """The cluster that a record names which cannot be read otherwise; None if it names none."""
    try:
        name = json.loads(document(item))["clusterName"]
    except (ValueError, LookupError, TypeError, zlib.error):
        return None
    return name if isinstance(name, str) else None


def key_pk(idempotency_key: str) -> str:
    return f"key#{hashlib.sha256(idempotency_key.encode()).hexdigest()}"


def run_item(run: Run) -> Item:
    return {
        "pk": text(pk_of(run.id)),
        "sk": text("run"),
        "doc": pack(run),
        "version": number(run.version),
        "gsi1pk": text(ENDED if run.terminal else ACTIVE),
        "gsi1sk": text(f"{stamp(run.created_at)}#{run.id}"),
        **listing.attributes(
            name=run.name,
            status=run.status,
            cluster=run.cluster_name,
            labels=run.labels,
            created_by=run.created_by,
        ),
    }


def child_item(run_id: str, child: str) -> Item:
    return {"pk": text(pk_of(run_id)), "sk": text(f"{CHILD}{child}")}


def key_item(run: Run, idempotency_key: str, body_hash: str) -> Item:
    expires = int((run.created_at + IDEMPOTENCY_LIFETIME).timestamp())
    return {
        "pk": text(key_pk(idempotency_key)),
        "sk": text("key"),
        "runId": text(run.id),
        "bodyHash": text(body_hash),
        "expiresAt": number(expires),
    }


def checkpoint_of(item: Item) -> Checkpoint:
    found, verdict = record_of(Checkpoint, item), item["verdict"]["S"]
    try:
        return found.changed(status=verdict)
    except ValidationError as error:
        raise unreadable(item, f"verdict {verdict!r}") from error


def marker_item(run_id: str, entry: TimelineEntry) -> Item:
    return {
        "pk": text(pk_of(run_id)),
        "sk": text(f"note#{entry.id}"),
        **notices.attributes(of_line(run_id, entry)),
    }


def line_item(run_id: str, entry: TimelineEntry) -> Item:
    return {
        "pk": text(pk_of(run_id)),
        "sk": text(f"line#{stamp(entry.at)}#{entry.id}"),
        "doc": pack(entry),
    }
