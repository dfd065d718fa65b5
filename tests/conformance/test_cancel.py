"""A person cancels: the job is asked to end, and what is whole is exported."""

from __future__ import annotations

import pytest
from tests.conformance.stage import Stage

pytestmark = pytest.mark.conformance


def test_a_cancelled_run_exports_its_whole_checkpoints_and_leaves_nothing(stage: Stage) -> None:
    # None is removed for a newer one between the look and the end.
    run_id = stage.submit("cancelled", checkpoint={"everySeconds": 1, "keep": 100})
    stage.trains(run_id)
    whole = {found["path"] for found in stage.system.whole(run_id)}
    stage.system.api.cancel_run(run_id)
    run = stage.ended(run_id, "Cancelled")
    assert run["problem"]["code"] == "cancelled"
    assert run["attempts"][0]["outcome"] == "cancelled", stage.story(run_id)
    stage.export(run)
    assert run["export"]["state"] == "verified"
    exported = {
        path for path in whole for key in stage.system.exported(run_id) if f"/{path}/" in key
    }
    assert exported == whole
