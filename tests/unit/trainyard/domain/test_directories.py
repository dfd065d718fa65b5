"""When a run's directory in S3 may go: nothing of it may be the only copy."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.story import run_spec

from trainyard.domain.directories import (
    KEEP_DIRECTORY_SECONDS,
    MOST_OBJECTS,
    beyond,
    in_order,
    kept_because,
)
from trainyard.domain.records import Export, Run

ENDED = datetime(2026, 11, 24, tzinfo=timezone.utc)
LATER = ENDED + timedelta(seconds=KEEP_DIRECTORY_SECONDS)
WHOLE = {
    "checkpoints/s/w.pt": 7,
    "checkpoints/s/manifest.json": 9,
    "watched/t/save/work/a.pt": 7,
    "watched/t/save/manifest.json": 9,
    "final/deep/w.pt": 7,
    "final/manifest.json": 9,
    "output/result": 2,
    "work/new": 3,
}
TORN = {"checkpoints/torn/w.pt": 1, "watched/t/torn/work/a.pt": 1}


def ended(export: dict[str, Any] | None = None, **changed: Any) -> Run:
    verified = Export(id="e", state="verified", requested_at=ENDED, final=True)
    update = {
        "status": "Failed",
        "finished_at": ENDED,
        "export": verified.changed(**(export or {})),
        **changed,
    }
    run = Run(
        id="run-1",
        name="r",
        spec=run_spec(),
        created_at=ENDED,
        updated_at=ENDED,
        cluster_name="c",
    )
    return run.changed(**update)


def test_a_run_long_over_with_a_verified_export_keeps_it_for_nothing() -> None:
    assert kept_because(ended(), LATER) == ""


@pytest.mark.parametrize(
    "run",
    [
        ended(status="Running", finished_at=None),
        ended(finished_at=ENDED + timedelta(seconds=1)),
        ended({"state": "failed"}),
        ended({"final": False}),
        ended({"left_behind": "1 file"}),
        ended({"found_nothing": True}),
        ended({"objects": MOST_OBJECTS + 1}),
    ],
)
def test_any_doubt_keeps_it(run: Run) -> None:
    assert kept_because(run, LATER) != ""
    assert kept_because(ended().changed(export=None), LATER) != ""


@pytest.mark.parametrize("path", WHOLE)
def test_each_file_must_be_in_the_export_with_its_size(path: str) -> None:
    assert beyond(WHOLE | TORN, WHOLE) == ""
    assert beyond(WHOLE, {**WHOLE, path: 1}) == path
    assert beyond(WHOLE, {name: size for name, size in WHOLE.items() if name != path}) == path


def test_manifests_go_first() -> None:
    order = in_order(WHOLE | TORN)
    assert all(path.endswith("/manifest.json") for path in order[:3])
    assert sorted(order) == sorted(WHOLE | TORN)
