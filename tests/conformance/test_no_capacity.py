"""AWS has no capacity: the next way is tried, or the run ends with AWS's words."""

from __future__ import annotations

import pytest
from tests.conformance.stage import Stage

pytestmark = pytest.mark.conformance


def test_a_run_without_capacity_goes_the_next_way_or_says_what_aws_said(stage: Stage) -> None:
    spec = stage.backend.scarce(stage.system, "scarce")
    run_id = stage.submit("scarce", spec, recovery={"waitForNodeSeconds": 0})
    if spec.get("capacity"):
        run = stage.ended(run_id, "Succeeded")
        first, second = stage.system.api.cluster(run["clusterName"])["tries"]
        assert "capacity" in first["reason"].lower()
        assert not second["reason"]
        [refused] = stage.said(run_id, "CapacityRefused")
        assert "AWS has no capacity for try 1" in refused
        assert len(stage.said(run_id, "CapacityTried")) == 2
        stage.trained_to_the_end(run)
    else:
        run = stage.ended(run_id, "Failed")
        assert run["problem"]["code"] == "no-capacity", run["problem"]
        assert "capacity" in run["problem"]["detail"].lower()
        assert not any(attempt["firstStepAt"] for attempt in run["attempts"])
