"""Uploaded trees that the data bucket keeps, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from trainyard.domain.errors import BlobNotFound, FieldError, InvalidRequest, UploadIncomplete
from trainyard.domain.records import Code
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.files import KeptCode
from trainyard_contracts.trees import TREE_BYTES, CompleteUpload, Tree, unfit

#: What was uploaded is deleted after so many days (template.yaml); the runs' own copies are not.
EXPIRES_DAYS = 30
#: An object that is older than this counts as missing: it could expire before a run has copied it.
FRESH_DAYS = EXPIRES_DAYS / 2
M = TypeVar("M", bound=BaseModel)


def usable_code(ports: Ports, tree_id: str, field: str, again: str) -> tuple[Code, str]:
    """An upload that a run can copy, and where its tree lies. Raises UploadIncomplete."""
    known = marker_of(ports, tree_id)
    fresh = known is not None and ports.clock.now() < usable_until(known)
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
    return read_stored(ports, places.kept_code_key(tree_id), KeptCode.model_validate_json)


def read_tree(document: bytes) -> Tree:
    """Raises InvalidRequest."""
    if len(document) > TREE_BYTES:
        raise wrong_tree("tree", f"has more than {TREE_BYTES} bytes")
    try:
        tree = Tree.model_validate_json(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise wrong_tree("tree", f"is not a tree: {place or 'it'}: {first['msg']}") from None
    if wrong := unfit(tree):
        raise wrong_tree("tree", wrong)
    return tree


def wrong_tree(field: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])


def marker_of(ports: Ports, upload_id: str) -> CompleteUpload | None:
    key = places.complete_upload_key(upload_id)
    return read_stored(ports, key, CompleteUpload.model_validate_json)


def usable_until(made: CompleteUpload) -> datetime:
    """When it was completed, everything was to live for FRESH_DAYS at least; a day is spare."""
    return made.completed_at + timedelta(days=FRESH_DAYS - 1)


def read_stored(ports: Ports, key: str, read: Callable[[bytes], M]) -> M | None:
    try:
        return read(ports.blobs.get(key))
    except (BlobNotFound, ValidationError):
        return None
