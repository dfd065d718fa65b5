"""A run succeeds: its export is verified, its weights are right, and nothing is left."""

from __future__ import annotations

import pytest
from tests.conformance.stage import STEPS, Stage

pytestmark = pytest.mark.conformance


def test_a_run_trains_exports_and_leaves_nothing(stage: Stage) -> None:
    run_id = stage.submit("success")
    run = stage.ended(run_id, "Succeeded")
    assert len(run["attempts"]) == 1, stage.story(run_id)
    assert run["incidents"] == []
    assert run["latest"]["step"] == STEPS
    stage.trained_to_the_end(run)
