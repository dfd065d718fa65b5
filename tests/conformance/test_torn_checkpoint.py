"""The newest checkpoint is torn before the next attempt: the one before is used."""

from __future__ import annotations

import pytest
from tests.conformance.stage import Stage

pytestmark = pytest.mark.conformance


def test_a_torn_checkpoint_is_reported_and_the_one_before_it_is_resumed_from(
    stage: Stage,
) -> None:
    run_id = stage.submit("torn")
    run = stage.trains(run_id)
    with stage.standing_still(run) as (newest, before, *_):
        stage.backend.tear(stage.system, run, newest)
        stage.backend.kill_worker(stage.system, run)
    run = stage.ended(run_id, "Succeeded")
    second = stage.resumed(run, "worker-process")
    assert second["resumedFrom"] == before["step"], stage.story(run_id)
    [rejected] = stage.system.timeline(run_id, "CheckpointRejected")
    assert rejected["data"]["step"] == newest["step"]
    shown = {
        (found["step"], found["attempt"]): found["status"]
        for found in stage.system.api.checkpoints(run_id)
    }
    assert shown[newest["step"], 1] == "rejected"
    stage.trained_to_the_end(run)
