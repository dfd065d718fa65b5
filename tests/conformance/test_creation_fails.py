"""AWS refuses what the run needs: the run ends with AWS's own reason, and nothing is left."""

from __future__ import annotations

import pytest
from tests.conformance.stage import Stage

pytestmark = pytest.mark.conformance


def test_a_run_that_aws_refuses_ends_with_its_reason(stage: Stage) -> None:
    with stage.backend.refused(stage.system) as words:
        run_id = stage.submit("refused")
        run = stage.ended(run_id, "Failed")
    assert words in run["problem"]["detail"], run["problem"]
    assert run["problem"]["nextStep"]
    assert not any(attempt["firstStepAt"] for attempt in run["attempts"])
    assert stage.system.exported(run_id) == []
