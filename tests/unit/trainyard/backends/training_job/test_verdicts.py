"""How a training job ended, told by its status, its stage and AWS's reason."""

from __future__ import annotations

import pytest

from trainyard.backends.training_job.verdicts import verdict


@pytest.mark.parametrize(
    ("status", "secondary", "failure", "how"),
    [
        ("Completed", "Completed", "", "completed"),
        ("Stopped", "Stopped", "", "stopped"),
        ("Stopped", "MaxRuntimeExceeded", "", "out-of-time"),
        ("Stopped", "MaxWaitTimeExceeded", "", "out-of-time"),
        ("Failed", "Failed", "InternalServerError: We encountered an internal error.", "host-lost"),
        ("Failed", "Failed", "CapacityError: Unable to provision requested ML", "no-capacity"),
        ("Failed", "Failed", "ClientError: Data download failed: NoSuchKey", "refused"),
        ("Failed", "Failed", "ClientError: Cannot pull algorithm container. Either", "refused"),
        ("Failed", "Failed", "AlgorithmError: ValueError, exit code: 1", "failed"),
        ("Failed", "Failed", "something that AWS never said before", "failed"),
        ("Failed", "", "", "failed"),
    ],
)
def test_each_end_has_a_word(status: str, secondary: str, failure: str, how: str) -> None:
    found = verdict(status, secondary, failure)
    assert found is not None
    assert found.how == how
    assert failure in found.reason
    assert found.reason or how == "completed"


@pytest.mark.parametrize("secondary", ["Starting", "Training", "Interrupted", "Stopping", "New"])
def test_a_job_that_goes_on_has_no_end(secondary: str) -> None:
    assert verdict("InProgress", secondary, "") is None
    assert verdict("Stopping", secondary, "") is None
