"""A node or host is lost: the run goes on elsewhere from its last whole checkpoint."""

from __future__ import annotations

import pytest
from tests.conformance.stage import Stage

pytestmark = pytest.mark.conformance


def test_a_run_that_loses_a_node_resumes_and_ends_as_if_nothing_had_happened(
    stage: Stage,
) -> None:
    run_id = stage.submit("lost")
    run = stage.trains(run_id)
    with stage.standing_still(run):
        stage.backend.lose_node(stage.system, run)
    run = stage.ended(run_id, "Succeeded")
    stage.resumed(run, "node-lost")
    assert run["attempts"][0]["outcome"] == "lost", stage.story(run_id)
    stage.trained_to_the_end(run)
