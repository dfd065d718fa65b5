"""Training never waits for a tracker: not for one that is down, stuck, or not there."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mlflow_server import MlflowServer, serving
from tests.support.waiting import eventually

from trainyard_trainers.loop.trackers import feeding
from trainyard_trainers.loop.trackers.feeding import Trackers, asked

RUN = "run-01j0000000000000000000000a"


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, []),
        ({"MLFLOW_TRACKING_URI": "http://x"}, ["mlflow"]),
        ({"MLFLOW_TRACKING_URI": ""}, []),
        ({"WANDB_API_KEY": "k"}, ["wandb"]),
        ({"WANDB_MODE": "offline"}, ["wandb"]),
        ({"WANDB_MODE": "online"}, []),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "disabled"}, []),
        ({"MLFLOW_TRACKING_URI": "http://x", "WANDB_API_KEY": "k"}, ["mlflow", "wandb"]),
    ],
)
def test_a_tracker_is_fed_where_its_variables_are_set(
    environment: dict[str, str], names: list[str]
) -> None:
    assert asked(environment) == names


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowServer]:
    monkeypatch.setattr(feeding, "EVERY_SECONDS", 0.0)
    made = MlflowServer()
    with serving(made) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        monkeypatch.delenv("WANDB_API_KEY", raising=False)
        yield made


@pytest.mark.real
def test_the_points_of_a_training_that_ends_are_there(server: MlflowServer) -> None:
    trackers = Trackers(RUN)
    for step in range(1, 4):
        trackers.add(step, {"train/loss": 1 / step, "nothing": float("nan")})
    eventually("the first points are there", lambda: "runs/log-batch" in server.calls)
    trackers.end("FINISHED")
    (run,) = server.runs.values()
    assert [(found["key"], found["step"]) for found in run["metrics"]] == [
        ("train/loss", 1),
        ("train/loss", 2),
        ("train/loss", 3),
    ]
    assert run["status"] == "FINISHED"


@pytest.mark.real
def test_a_tracker_that_is_stuck_loses_points_and_delays_nothing(
    server: MlflowServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(feeding, "OTHER_END_SECONDS", 0.1)
    trackers = Trackers(RUN)
    (fed,) = trackers._fed
    assert fed._process is not None
    os.kill(fed._process.pid, signal.SIGSTOP)
    for step in range(20_000):  # ten times what the pipe holds
        trackers.add(step, {"train/loss": 1.0})
    trackers.end("FAILED")
    assert fed._process.returncode == -signal.SIGKILL
    assert "the tracker mlflow did not take the last points in time" in capfd.readouterr().err


@pytest.mark.real
def test_training_goes_on_without_a_tracker_that_refuses(
    server: MlflowServer, capfd: pytest.CaptureFixture[str]
) -> None:
    server.broken = 401
    trackers = Trackers(RUN)
    (fed,) = trackers._fed
    assert fed._process is not None
    assert fed._process.wait(60) == 1
    trackers.add(1, {"train/loss": 1.0})
    trackers.end("FINISHED")
    told = capfd.readouterr().err
    assert "the tracker mlflow takes no points" in told
    assert "MLFLOW_TRACKING_URI" in told
    assert "Fatal Python error" not in told


@pytest.mark.real
def test_a_package_that_is_missing_is_a_warning_with_what_to_do(
    server: MlflowServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.setenv("WANDB_MODE", "offline")
    trackers = Trackers(RUN)
    trackers.add(1, {"train/loss": 1.0})
    trackers.end("FINISHED")
    assert "put it into the job's environment (job.pythonEnvironment)" in capfd.readouterr().err


@pytest.mark.real
def test_a_tracker_ends_with_the_training_that_was_killed(
    server: MlflowServer, tmp_path: Path
) -> None:
    pid = os.fork()
    if pid == 0:
        trackers = Trackers(RUN)
        (tmp_path / "pid.new").write_text(str(trackers._fed[0]._process.pid))  # type: ignore[union-attr]
        (tmp_path / "pid.new").rename(tmp_path / "pid")
        time.sleep(3600)
    eventually("it began", (tmp_path / "pid").exists)
    child = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    eventually("its tracker is gone", lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
