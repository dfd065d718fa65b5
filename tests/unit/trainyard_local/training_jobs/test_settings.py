"""Settings of training jobs come from the server's environment, and have AWS's times else."""

from __future__ import annotations

from pathlib import Path

from trainyard_local.training_jobs.settings import JobSettings


def test_without_a_setting_a_stop_takes_as_long_as_on_aws() -> None:
    found = JobSettings.from_env({})
    assert (found.stop_seconds, found.spot_notice_seconds) == (120.0, 120.0)
    assert found.python.parts[-3:] == (".venv-training-jobs", "bin", "python")


def test_each_setting_has_a_variable() -> None:
    found = JobSettings.from_env(
        {
            "TRAINYARD_LOCAL_JOB_STOP_SECONDS": "2",
            "TRAINYARD_LOCAL_JOB_SPOT_NOTICE_SECONDS": "3",
            "TRAINYARD_LOCAL_JOB_SYNC_SECONDS": "0.5",
            "TRAINYARD_LOCAL_JOB_CAPACITY_SECONDS": "4",
            "TRAINYARD_LOCAL_JOB_START_SECONDS": "5",
            "TRAINYARD_LOCAL_JOB_PYTHON": "/opt/python",
            "TRAINYARD_LOCAL_WITHOUT_CAPACITY": "ml.p5.48xlarge,",
        }
    )
    assert found == JobSettings(2, 3, 0.5, 4, 5, Path("/opt/python"), frozenset({"ml.p5.48xlarge"}))
