"""The demo succeeds only if everything it claims was seen and is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from demo.verdict import Measured

GOOD = Measured(
    run_id="run-x", run_status="Succeeded", attempts=2, fault_to_submit_seconds=1.5,
    fault_to_resumed_step_seconds=6.0, last_step_before_fault=47, newest_whole_step_before_fault=40,
    resumed_from=40, reference_status="Succeeded", reference_attempts=1, final_weights_equal=True,
    exported_objects=9, exported_bytes=1000, export_verified=True, cluster_deleted=True,
    leftover_processes=0, wall_seconds=80.0,
)  # fmt: skip
KEYS = [
    "ok", "runId", "attempts", "faultToSubmitSeconds", "faultToResumedStepSeconds", "stepsLost",
    "finalWeightsEqual", "exportedObjects", "exportedBytes", "exportVerified", "clusterDeleted",
    "leftoverProcesses", "wallSeconds",
]  # fmt: skip


def test_the_document_has_exactly_the_promised_keys() -> None:
    assert list(GOOD.document()) == KEYS


def test_it_is_ok_when_everything_is_true() -> None:
    assert GOOD.failures() == []
    assert GOOD.document()["ok"] is True
    assert GOOD.document()["stepsLost"] == 7


@pytest.mark.parametrize(
    "change",
    [
        {"run_status": "Failed"}, {"attempts": 1}, {"attempts": 3},
        {"fault_to_submit_seconds": None}, {"fault_to_resumed_step_seconds": None},
        {"resumed_from": 30}, {"resumed_from": None}, {"last_step_before_fault": None},
        {"last_step_before_fault": 39}, {"newest_whole_step_before_fault": None},
        {"reference_status": "Failed"}, {"reference_attempts": 2}, {"final_weights_equal": False},
        {"exported_objects": 0}, {"export_verified": False}, {"cluster_deleted": False},
        {"leftover_processes": 1}, {"trouble": ["it was interrupted"]},
    ],
)  # fmt: skip
def test_one_thing_that_is_not_true_is_enough_to_fail(change: dict[str, Any]) -> None:
    measured = replace(GOOD, **change)
    assert measured.failures()
    assert measured.document()["ok"] is False


def test_nothing_measured_is_nothing_claimed() -> None:
    assert not Measured().document()["ok"]
