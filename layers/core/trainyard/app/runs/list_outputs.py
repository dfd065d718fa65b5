"""What of a run is in S3, page by page, and URLs to read it by: its export, or its sync."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from trainyard.app.runs.read_sync import latest_sync, sync_manifest_key
from trainyard.domain import names
from trainyard.domain.advice import submitted
from trainyard.domain.errors import BlobNotFound, ConflictError, NotExported
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts.files import ExportedObject

#: A URL's life: long enough for a page of large objects, and asking again costs one call.
URL_SECONDS = 3600
#: A URL of a long name has 5 KB, and a Lambda function answers with 6 MB at most.
MOST_WITH_URLS = 200
#: A page of a sync goes on in the same list: a newer one may be in force by then.
_SYNC_TOKEN = re.compile(r"^sync-([0-9]{1,12})\.(.+)$")


@dataclass(frozen=True)
class Output:
    """One object of the export."""

    object: ExportedObject
    url: str | None


@dataclass(frozen=True)
class Outputs:
    """A page of them, below `uri`. `at`: when the sync was made."""

    uri: str
    items: list[Output]
    next_token: str | None
    expires_at: datetime | None
    source: Literal["export", "sync"] = "export"
    at: datetime | None = None


@dataclass(frozen=True)
class _List:
    """Which list is read: the export's, or one of the sync's by its number."""

    key: str
    token: str | None
    number: int = 0
    at: datetime | None = None


def list_outputs(
    ports: Ports, run_id: str, *, limit: int, token: str | None = None, urls: bool = False
) -> Outputs:
    """Raises RunNotFound, NotExported, BadPageToken, ConflictError (the manifest was replaced)."""
    run = ports.runs.get(run_id)
    limit = min(limit, MOST_WITH_URLS) if urls else limit
    found = _list(ports, run, token)
    try:
        page = ports.exports.objects(found.key, limit=limit, token=found.token)
    except BlobNotFound:
        raise _gone(found) from None
    expires = ports.clock.now() + timedelta(seconds=URL_SECONDS) if urls else None
    items = [Output(item, _url(ports, run, item, found) if urls else None) for item in page.items]
    if not found.number:
        return Outputs(uri(ports, run), items, page.next_token, expires)
    more = f"sync-{found.number}.{page.next_token}" if page.next_token else None
    place = names.s3_uri(ports.blobs.bucket, f"{run.sync_prefix}/")
    return Outputs(place, items, more, expires, "sync", found.at)


def uri(ports: Ports, run: Run) -> str:
    """Where the run is exported to."""
    return names.s3_uri(ports.blobs.bucket, run.export_prefix)


def _list(ports: Ports, run: Run, token: str | None) -> _List:
    """The final export if it is verified; else the newer of what there is. Raises NotExported."""
    asked = _SYNC_TOKEN.match(token) if token is not None else None
    export = run.export
    if export is not None and (export.state != "verified" or not export.manifest_key):
        export = None
    if export is not None and asked is None and (export.final or token is not None):
        return _List(export.manifest_key, token)
    latest = latest_sync(ports, run)
    if asked is not None:
        number = int(asked.group(1))
        at = latest.at if latest is not None and latest.number == number else None
        return _List(sync_manifest_key(run, number), asked.group(2), number, at)
    if latest is not None and (export is None or export.requested_at <= latest.at):
        return _List(sync_manifest_key(run, latest.number), token, latest.number, latest.at)
    if export is None:
        raise _not_exported(run)
    return _List(export.manifest_key, token)


def _url(ports: Ports, run: Run, found: ExportedObject, listed: _List) -> str | None:
    """Nodes wrote the list: a key that is no plain path below the export gets no URL."""
    if any(part in ("", ".", "..") for part in found.key.split("/")):
        return None
    key = f"{run.sync_prefix}/{found.sha256}" if listed.number else run.export_prefix + found.key
    return ports.exports.url(key, seconds=URL_SECONDS)


def _gone(found: _List) -> ConflictError:
    if found.number:
        return ConflictError(
            "The list of what was synced was replaced by a newer one.",
            next_step="Ask for the list again from its beginning.",
        )
    return NotExported("Its export was verified, but its manifest is no longer in the data bucket.")


def _not_exported(run: Run) -> NotExported:
    if run.export is None and not submitted(run):
        if not run.terminal:
            return NotExported(
                f"The run is {run.status}, and its program has not started yet.",
                next_step="Ask again when it trains.",
            )
        return NotExported(
            f"The run is {run.status}, and its program never started: there is nothing to export.",
            next_step=f"Look why with trainyard run show {run.id}.",
        )
    return NotExported(
        _why(run),
        next_step=f"Export it with trainyard run export {run.id} (POST /v1/runs/{run.id}:export), "
        "and ask again when it is verified.",
    )


def _why(run: Run) -> str:
    if run.export is None:
        if run.spec.export.every_seconds is not None:
            return f"The run is {run.status}, and nothing of it was copied to S3 yet."
        return f"The run is {run.status} and was not exported yet."
    if run.export.state == "failed":
        return f"Its newest export failed: {run.export.reason}."
    return f"Its newest export is {run.export.state}."
