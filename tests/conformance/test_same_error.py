"""The same error at the same step twice: the run stops and keeps what shows why."""

from __future__ import annotations

import pytest
from tests.conformance.stage import Stage

pytestmark = pytest.mark.conformance

#: Weights grow at each step by a factor, until the loss is no finite number: it needs no chance.
DIVERGES = ("--learning-rate", "3")


def test_the_same_error_at_the_same_step_twice_ends_the_run_with_its_evidence(
    stage: Stage,
) -> None:
    run_id = stage.submit("diverges", None, *DIVERGES, recovery={"sameErrorLimit": 2})
    run = stage.ended(run_id, "Failed")
    assert len(run["attempts"]) == 2, stage.story(run_id)
    assert run["problem"]["code"] == "same-error"
    detail = run["problem"]["detail"]
    assert "is not finite" in detail
    assert "2 times at step" in detail
    assert "Traceback (most recent call last):" in detail
    for attempt in (1, 2):
        log = stage.system.api.logs(run_id, attempt=attempt)
        assert "is not finite" in log["text"], log
    exported = stage.export(run)
    assert exported.objects
    assert exported.final == {}
    assert any("/checkpoints/" in key for key in stage.system.exported(run_id))
