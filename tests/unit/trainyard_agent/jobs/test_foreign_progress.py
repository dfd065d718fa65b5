"""Steps of a program that reports none, and what must not follow from them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.foreign import bundle

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.jobs import foreign_progress
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.progress import ProgressReader
from trainyard_contracts.watching import ProgressSource

EVENT = "1a00000000000000129bd82d09000000000000f03f10072a0d0a0b0a046c6f7373150000003f862c9a2f"


class Job:
    """An attempt with a log, and the reader of its steps; `now` is their clock."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.now = 1000.0
        monkeypatch.setattr(foreign_progress.time, "monotonic", lambda: self.now)
        settings = config(tmp_path)
        self.store = Store(tmp_path / "outbox.sqlite")
        reporter = Reporter(settings, self.store)
        self.directory = tmp_path / RUN / "attempts/1"
        self.directory.mkdir(parents=True)
        self.attempts = Attempts(settings, reporter)
        self.reader = ProgressReader(reporter, self.attempts)
        self.attempt = Attempt(RUN, 1, "running", self.directory, nodes=("ip-1",))
        self.attempt.bundle = bundle().model_copy(update=changes)
        self.attempts.save(self.attempt)

    def log(self, text: str) -> None:
        with (self.directory / "job.log").open("a") as stream:
            stream.write(text)

    def report(self, step: int) -> None:
        body = {"step": step, "at": 10.0 + step, "firstStepAt": 10.0, "resumedFrom": 3}
        (self.directory / "new").write_text(json.dumps(body))
        os.replace(self.directory / "new", self.directory / "progress.json")

    def look(self, after: float = 1.0) -> tuple[int | None, str | None]:
        self.now += after
        self.reader.read(self.attempt)
        progress = self.attempt.progress
        return (progress.step, progress.source) if progress else (None, None)

    def told(self) -> list[dict[str, Any]]:
        rows = self.store.connection.execute("SELECT body FROM outbox ORDER BY seq")
        return [json.loads(body) for (body,) in rows]


def test_the_first_step_that_a_log_says_is_reported_with_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch)
    assert job.look() == (None, None)
    job.log("Loading...\nstep 7 loss 0.5\n")
    assert job.look() == (None, None), "it may report the step itself in a moment"
    assert job.look(3) == (7, "log")
    (event,) = job.told()
    assert (event["step"], event["resumedFrom"], event["source"]) == (7, None, "log")
    (sample,) = job.attempts.samples()
    assert (sample.step, sample.loss) == (7, 0.5)
    job.log("step 9 loss 0.25\n")
    assert job.look() == (9, "log")
    assert len(job.told()) == 1
    losses = job.attempt.losses.items()
    assert [(step, loss) for step, _, loss in losses] == [(7, 0.5), (9, 0.25)]


def test_what_the_program_reports_itself_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch)
    job.log("step 7 loss 0.5\n")
    job.look()
    job.report(5)
    assert job.look(9) == (5, "program")
    job.log("step 99 loss 0.5\n")
    assert job.look(9) == (5, "program")
    assert [event["source"] for event in job.told()] == ["program"]


def test_a_short_job_is_read_to_the_end_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch)
    job.log("".join(f"step {step} loss 0.5 {'x' * 90}\n" for step in range(5000)))
    job.attempt.job_ended = True
    assert job.look(0) == (4999, "log")


@pytest.mark.parametrize(
    "changes", [{"progress": "none"}, {"program": ["-m", "trainyard_trainers.ddp"]}]
)
def test_nothing_is_read_of_who_wants_none_or_reports_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    job = Job(tmp_path, monkeypatch, **changes)
    job.log("step 7 loss 0.5\n")
    job.look()
    assert job.look(9) == (None, None)


def test_steps_of_a_log_say_nothing_of_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log comes late and by pieces: a burst of steps is no proof that a node lives or is gone."""
    job = Job(tmp_path, monkeypatch)
    for step in range(1, 5):
        job.log(f"step {step}00 loss 0.5\n")
        job.look(3)
    assert job.attempt.progress is not None
    activity = job.attempts.on_node("ip-1")
    assert activity is not None
    assert (activity.stepped_at, activity.step_seconds) == (None, None)
    assert job.attempt.said_at is not None


def test_what_cannot_be_read_is_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path, monkeypatch)
    os.mkfifo(job.directory / "job.log")
    assert job.look() == (None, None)
    (job.directory / "job.log").unlink()
    job.log("step 7 loss 0.5\n")
    job.look()
    assert job.look(9) == (7, "log")


def test_tensorboards_files_are_read_where_the_spec_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch, progress=ProgressSource(tensorboard="runs"))
    runs = tmp_path / RUN / "work/runs"
    runs.mkdir(parents=True)
    # One record as PyTorch's SummaryWriter writes it: step 7, 'loss' 0.5.
    (runs / "events.out.tfevents.1").write_bytes(bytes.fromhex(EVENT))
    job.look()
    assert job.look(9) == (7, "tensorboard")
