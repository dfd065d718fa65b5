"""A worker process is killed: the run goes on from its last whole checkpoint."""

from __future__ import annotations

import pytest
from tests.conformance.stage import Stage

pytestmark = pytest.mark.conformance


def test_a_run_whose_worker_is_killed_resumes_and_ends_as_if_nothing_had_happened(
    stage: Stage,
) -> None:
    run_id = stage.submit("killed")
    stage.backend.kill_worker(stage.system, stage.trains(run_id))
    run = stage.ended(run_id, "Succeeded")
    stage.resumed(run, "worker-process")
    assert "SIGKILL" in run["attempts"][0]["reason"], stage.story(run_id)
    stage.trained_to_the_end(run)
