"""The export fails: what holds the only copy stays until a later export saves it."""

from __future__ import annotations

import pytest
from tests.conformance.stage import STEPS, Stage

pytestmark = pytest.mark.conformance


def test_what_holds_the_only_copy_is_kept_until_an_export_is_verified(stage: Stage) -> None:
    run_id = stage.submit("only-copy")
    run = stage.trains(run_id)
    with stage.backend.spoiled_export(stage.system, run):
        run = stage.system.ended(run_id, "Failed", 180)
        assert run["problem"]["code"] == "export-failed", stage.story(run_id)
        assert run["export"]["state"] != "verified"
        [kept] = stage.said(run_id, "ClusterKept")
        assert "in no verified export" in kept
        assert "kept" in run["problem"]["nextStep"]
        stage.system.sweep()
        assert any(f"step-{STEPS:012d}" in name for name in stage.backend.keeps(stage.system, run))
        assert stage.system.api.cluster(run["clusterName"])["status"] == "Ready"
    stage.system.api.export_run(run_id)
    run = stage.system.ended(run_id, "Succeeded", 180)
    stage.trained_to_the_end(run)
    stage.system.api.delete_cluster(run["clusterName"])
    stage.gone(run)
