"""Uploads of directories: what of one is missing, and whether a run can be submitted with it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from trainyard.app.runs.kept_trees import (
    FRESH_DAYS,
    marker_of,
    read_stored,
    read_tree,
    usable_until,
    wrong_tree,
)
from trainyard.domain.errors import BlobNotFound, InvalidRequest, UploadNotFound
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.trees import (
    CompleteUpload,
    HeldParts,
    MissingObject,
    NamedData,
    Pack,
    Tree,
    Upload,
    UploadSpec,
)

#: So many of the missing objects one answer has URLs for.
MOST_MISSING = 200
#: A URL of an upload is valid so long, and what was there then need not be looked for again: it
#: lives for FRESH_DAYS at least.
URL_SECONDS = 3600
_AT_ONCE = 16


def request_upload(ports: Ports, spec: UploadSpec) -> Upload:
    """What of the upload is missing; Complete once nothing is. Raises InvalidRequest.

    A name is given once it is Complete.
    """
    found = _requested(ports, spec)
    if spec.name is not None and found.state == "Complete":
        named = NamedData(tree=spec.tree.sha256, named_at=ports.clock.now())
        body = named.model_dump_json(by_alias=True).encode()
        ports.blobs.put(places.named_data_key(spec.name), body)
    return found


def _requested(ports: Ports, spec: UploadSpec) -> Upload:
    if known := _complete(ports, spec.tree.sha256):
        return known
    missing = _newly_missing(ports, spec)
    if missing:
        return _incomplete(ports, spec.tree.sha256, missing)
    tree = read_tree(ports.blobs.get(places.upload_key(spec.tree.sha256)))
    listed = {pack.sha256: pack.bytes for pack in spec.packs}
    unlisted = next((p for p in tree.packs if listed.get(p.sha256) != p.bytes), None)
    if unlisted is not None:
        raise wrong_tree(
            "packs",
            f"lacks the pack {unlisted.sha256} of {unlisted.bytes} bytes, which the tree names",
        )
    return _completed(ports, spec.tree.sha256, tree)


def show_upload(ports: Ports, upload_id: str) -> Upload:
    """The state of an upload, without URLs. Raises UploadNotFound before its tree is there."""
    if known := _complete(ports, upload_id):
        return known
    try:
        tree = read_tree(ports.blobs.get(places.upload_key(upload_id)))
    except (BlobNotFound, InvalidRequest):
        raise UploadNotFound(f"'{upload_id}' is not the id of an upload.") from None
    missing = _missing(ports, list({pack.sha256: pack for pack in tree.packs}.values()))
    return Upload(id=upload_id, state="Incomplete", missing_count=len(missing))


def _newly_missing(ports: Ports, spec: UploadSpec) -> list[Pack]:
    """What is missing, without a look at what was there a moment ago: there may be 2,000 packs."""
    now, key = ports.clock.now(), places.held_parts_key(spec.tree.sha256)
    before = read_stored(ports, key, HeldParts.model_validate_json)
    if before is None or now - before.looked_at >= timedelta(seconds=URL_SECONDS):
        before = HeldParts(parts={}, looked_at=now)
    parts = [spec.tree, *spec.packs]
    missing = _missing(ports, [one for one in parts if before.parts.get(one.sha256) != one.bytes])
    lacking = {one.sha256 for one in missing}
    held = {one.sha256: one.bytes for one in parts if one.sha256 not in lacking}
    if missing and held.keys() - before.parts.keys():
        looked = HeldParts(parts=before.parts | held, looked_at=before.looked_at)
        ports.blobs.put(key, looked.model_dump_json(by_alias=True).encode())
    return missing


def _missing(ports: Ports, parts: Sequence[Pack]) -> list[Pack]:
    oldest = ports.clock.now() - timedelta(days=FRESH_DAYS)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        held = list(pool.map(ports.uploads.held, parts))
    return [part for part, at in zip(parts, held, strict=True) if at is None or at < oldest]


def _incomplete(ports: Ports, upload_id: str, missing: Sequence[Pack]) -> Upload:
    expires_at = ports.clock.now() + timedelta(seconds=URL_SECONDS)
    listed = []
    for part in missing[:MOST_MISSING]:
        put = ports.uploads.request(part, seconds=URL_SECONDS)
        listed.append(
            MissingObject(
                sha256=part.sha256, bytes=part.bytes, url=put.url, headers=dict(put.headers)
            )
        )
    return Upload(
        id=upload_id,
        state="Incomplete",
        missing=listed,
        missing_count=len(missing),
        expires_at=expires_at,
    )


def _completed(ports: Ports, upload_id: str, tree: Tree) -> Upload:
    made = CompleteUpload(
        tree=upload_id,
        files=len(tree.files),
        bytes=sum(file.bytes for file in tree.files),
        completed_at=ports.clock.now(),
    )
    body = made.model_dump_json(by_alias=True).encode()
    ports.blobs.put(places.complete_upload_key(upload_id), body)
    return Upload(id=upload_id, state="Complete", expires_at=usable_until(made))


def _complete(ports: Ports, upload_id: str) -> Upload | None:
    known = marker_of(ports, upload_id)
    if known is None or ports.clock.now() >= usable_until(known):
        return None
    return Upload(id=upload_id, state="Complete", expires_at=usable_until(known))
