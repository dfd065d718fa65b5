"""A manifest is read in parts of any size, and no object is lost or told twice."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from trainyard.domain.manifest_pages import NotAManifest, read_part
from trainyard_contracts.files import (
    ExportedObject,
    ExportManifest,
    SyncedObject,
    SyncManifest,
)


def manifest(*keys: str) -> bytes:
    objects = [ExportedObject(key=key, bytes=1, sha256="0" * 64) for key in keys]
    made = ExportManifest(
        run_id="run-x", created_at=datetime(2026, 11, 20, tzinfo=timezone.utc), objects=objects
    )
    return made.model_dump_json(by_alias=True, indent=1).encode()


def all_keys(body: bytes, window: int, most: int) -> list[str]:
    start: int | None = 0
    found: list[str] = []
    while start is not None:
        part = read_part(body[start : start + window], start, most)
        assert part.end != start
        found += [entry.key for entry in part.objects]
        start = part.end
    return found


@pytest.mark.parametrize("window", [400, 401, 402, 403, 1000, 100_000])
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_every_window_and_page_gives_the_same_objects(window: int, most: int) -> None:
    keys = [f'output/é{number}/]}},{{"objects": [.pt' for number in range(20)]
    assert all_keys(manifest(*keys), window, most) == keys


def test_the_list_of_a_sync_is_read_the_same_way() -> None:
    keys = [f"output/{number}" for number in range(20)]
    objects = [SyncedObject(key=key, bytes=1, sha256="0" * 64, mode=0o755) for key in keys]
    at = datetime(2026, 11, 20, tzinfo=timezone.utc)
    made = SyncManifest(run_id="run-x", attempt=1, created_at=at, objects=objects, last_step=4)
    assert all_keys(made.model_dump_json(by_alias=True).encode(), 400, 3) == keys


def test_an_export_without_objects_ends_at_once() -> None:
    assert all_keys(manifest(), 1000, 10) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"objects": 1}', b'{"objects": [1]}', b'{"objects": [{"key": 1}]}',
     b'{"objects": ["x"]}'],
)  # fmt: skip
def test_what_is_no_manifest_is_said_so(body: bytes) -> None:
    with pytest.raises(NotAManifest):
        read_part(body, 0, 10)


def test_a_window_that_holds_no_whole_object_leads_nowhere() -> None:
    body = manifest("a")
    begin = body.index(b"[") + 1
    part = read_part(body[begin : begin + 30], begin, 10)
    assert part.objects == []
