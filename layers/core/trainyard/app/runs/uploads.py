"""Uploads of directories: what of one is missing, and whether a run can be submitted with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from trainyard.domain.errors import (
    BlobNotFound,
    FieldError,
    InvalidRequest,
    UploadIncomplete,
    UploadNotFound,
)
from trainyard.domain.records import Code
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.files import KeptCode
from trainyard_contracts.specs import JobSpec, RunSpec
from trainyard_contracts.trees import (
    TREE_BYTES,
    CompleteUpload,
    HeldParts,
    MissingObject,
    NamedData,
    Pack,
    Tree,
    Upload,
    UploadSpec,
    unfit,
)

#: What was uploaded is deleted after so many days (template.yaml); the runs' own copies are not.
EXPIRES_DAYS = 30
#: An object that is older than this counts as missing: it could expire before a run has copied it.
FRESH_DAYS = EXPIRES_DAYS / 2
#: So many of the missing objects one answer has URLs for.
MOST_MISSING = 200
#: A URL of an upload is valid so long, and what was there then need not be looked for again: it
#: lives for FRESH_DAYS at least.
URL_SECONDS = 3600
_AT_ONCE = 16
M = TypeVar("M", bound=BaseModel)


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
    tree = _tree(ports.blobs.get(places.upload_key(spec.tree.sha256)))
    listed = {pack.sha256: pack.bytes for pack in spec.packs}
    unlisted = next((p for p in tree.packs if listed.get(p.sha256) != p.bytes), None)
    if unlisted is not None:
        raise _wrong(
            "packs",
            f"lacks the pack {unlisted.sha256} of {unlisted.bytes} bytes, which the tree names",
        )
    return _completed(ports, spec.tree.sha256, tree)


def show_upload(ports: Ports, upload_id: str) -> Upload:
    """The state of an upload, without URLs. Raises UploadNotFound before its tree is there."""
    if known := _complete(ports, upload_id):
        return known
    try:
        tree = _tree(ports.blobs.get(places.upload_key(upload_id)))
    except (BlobNotFound, InvalidRequest):
        raise UploadNotFound(f"'{upload_id}' is not the id of an upload.") from None
    missing = _missing(ports, list({pack.sha256: pack for pack in tree.packs}.values()))
    return Upload(id=upload_id, state="Incomplete", missing_count=len(missing))


def check_code(ports: Ports, spec: RunSpec) -> Code | None:
    """The code that the run would be given.

    Raises UploadIncomplete, and InvalidRequest for a script that is in neither place.
    """
    tree_id = spec.job.workdir
    if tree_id is None:
        return None
    code, key = usable_code(ports, tree_id, "job.workdir", "upload the directory again")
    _check_script(ports, spec.job, key)
    return code


def usable_code(ports: Ports, tree_id: str, field: str, again: str) -> tuple[Code, str]:
    """An upload that a run can copy, and where its tree lies. Raises UploadIncomplete."""
    known = _marker(ports, tree_id)
    fresh = known is not None and ports.clock.now() < _usable_until(known)
    kept = None if fresh else kept_code(ports, tree_id)
    if kept is None and not fresh:
        words = "it has expired" if known else "it is not complete"
        raise UploadIncomplete(
            f"{field}: there is no usable upload {tree_id}: {words}.",
            errors=[FieldError(field, f"{words}; {again}")],
        )
    key = f"{kept.prefix}/{tree_id}" if kept else places.upload_key(tree_id)
    found = kept or known
    assert found is not None
    return Code(tree=tree_id, files=found.files, bytes=found.bytes), key


def kept_code(ports: Ports, tree_id: str) -> KeptCode | None:
    """Which run keeps the tree and its packs, whatever became of the upload."""
    return _stored(ports, places.kept_code_key(tree_id), KeptCode.model_validate_json)


def _check_script(ports: Ports, job: JobSpec, key: str) -> None:
    if job.script is None or job.script in job.files:
        return
    try:
        tree = _tree(ports.blobs.get(key))
    except (BlobNotFound, InvalidRequest):
        return  # the run says so when it copies the tree
    if all(job.script != path for path in _names(tree)):
        raise _wrong(
            "job.script", f"'{job.script}' is neither in job.workdir nor in job.files; correct it"
        )


def _names(tree: Tree) -> list[str]:
    return [*(file.path for file in tree.files), *(link.path for link in tree.links)]


def _newly_missing(ports: Ports, spec: UploadSpec) -> list[Pack]:
    """What is missing, without a look at what was there a moment ago: there may be 2,000 packs."""
    now, key = ports.clock.now(), places.held_parts_key(spec.tree.sha256)
    before = _stored(ports, key, HeldParts.model_validate_json)
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


def _tree(document: bytes) -> Tree:
    """Raises InvalidRequest."""
    if len(document) > TREE_BYTES:
        raise _wrong("tree", f"has more than {TREE_BYTES} bytes")
    try:
        tree = Tree.model_validate_json(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _wrong("tree", f"is not a tree: {place or 'it'}: {first['msg']}") from None
    if wrong := unfit(tree):
        raise _wrong("tree", wrong)
    return tree


def _wrong(field: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])


def _completed(ports: Ports, upload_id: str, tree: Tree) -> Upload:
    made = CompleteUpload(
        tree=upload_id,
        files=len(tree.files),
        bytes=sum(file.bytes for file in tree.files),
        completed_at=ports.clock.now(),
    )
    body = made.model_dump_json(by_alias=True).encode()
    ports.blobs.put(places.complete_upload_key(upload_id), body)
    return Upload(id=upload_id, state="Complete", expires_at=_usable_until(made))


def _complete(ports: Ports, upload_id: str) -> Upload | None:
    known = _marker(ports, upload_id)
    if known is None or ports.clock.now() >= _usable_until(known):
        return None
    return Upload(id=upload_id, state="Complete", expires_at=_usable_until(known))


def _marker(ports: Ports, upload_id: str) -> CompleteUpload | None:
    key = places.complete_upload_key(upload_id)
    return _stored(ports, key, CompleteUpload.model_validate_json)


def _usable_until(made: CompleteUpload) -> datetime:
    """When it was completed, everything was to live for FRESH_DAYS at least; a day is spare."""
    return made.completed_at + timedelta(days=FRESH_DAYS - 1)


def _stored(ports: Ports, key: str, read: Callable[[bytes], M]) -> M | None:
    try:
        return read(ports.blobs.get(key))
    except (BlobNotFound, ValidationError):
        return None
