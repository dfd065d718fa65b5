"""How long a step usually takes, by those that were seen, and when the first one was."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.support.agent import RUN, attempt, config
from tests.support.agent_parts import Controller

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host import job_files
from trainyard_agent.jobs.activity import usual_pause
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.progress import (
    ProgressReader,
    first_step_at,
    note_step,
    smoothed,
    step_at,
)
from trainyard_contracts.progress_file import Progress


def progress(step: int, at: float) -> Progress:
    return Progress(
        step=step, loss=None, at=at, resumed_from=None, first_step_at=None, world_size=1
    )


def test_a_step_usually_takes_what_the_newest_ones_took() -> None:
    assert smoothed(None, 2.0) == 2.0
    assert smoothed(1.0, 2.0) == pytest.approx(1.3)


def test_only_a_step_forward_says_how_long_steps_take() -> None:
    ours = attempt()
    note_step(ours, progress(10, 100.0), 1.0)
    assert (ours.stepped_at, ours.step_seconds) == (None, None), "one report is no step yet"
    note_step(ours, progress(14, 102.0), 2.0)
    assert (ours.stepped_at, ours.step_seconds) == (2.0, 0.5)
    note_step(ours, progress(12, 110.0), 3.0)
    assert (ours.stepped_at, ours.step_seconds) == (3.0, 0.5), "it began again further back"
    note_step(ours, progress(12, 120.0), 4.0)
    assert ours.stepped_at == 3.0
    assert list(ours.pauses) == [1.0], "of the time before the first step nothing is known"


def test_a_single_long_pause_is_no_usual_one() -> None:
    assert usual_pause([]) == usual_pause([9.0]) == 0.0
    assert usual_pause([0.2, 60.0, 0.3, 0.1]) == 0.3
    assert usual_pause([0.2, 1.7, 2.0]) == 1.7


NONSENSE = [
    '{"step": 1, "at": 1, "firstStepAt": 1e300}',
    '{"step": 1, "at": 1, "firstStepAt": -1e17}',
    '{"step": 1, "at": 1, "firstStepAt": NaN}',
    '{"step": 1, "at": 1e300}',
    '{"step": ' + "9" * 400 + ', "at": 2, "firstStepAt": 2}',
    '{"step": 2, "at": 2, "resumedFrom": -5, "firstStepAt": 2}',
    "[" * 100_000,
    "\0" * 100,
    " " * (job_files.SMALL_BYTES + 1),
]


def test_nonsense_in_progress_is_ignored_and_the_next_progress_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path / "outbox.sqlite")
    reporter = Reporter(config(tmp_path), store)
    attempts = Attempts(config(tmp_path), reporter)
    progress = ProgressReader(reporter, attempts)
    attempt = Attempt(RUN, 1, "running", tmp_path)
    for text in ['{"step": 1, "at": 1}', *NONSENSE]:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(tmp_path / "progress.json")
        progress.read(attempt)
    assert attempt.progress is not None
    assert (attempt.progress.step, attempt.stepped) == (1, False)
    (tmp_path / "progress.json").unlink()
    os.mkfifo(tmp_path / "progress.json")
    progress.read(attempt)
    (tmp_path / "new").write_text('{"step": 7, "at": 8, "firstStepAt": 7.5, "loss": NaN}')
    (tmp_path / "new").replace(tmp_path / "progress.json")
    progress.read(attempt)
    assert (attempt.progress.step, attempt.stepped) == (7, True)
    [sample] = [sample for sample in attempts.samples() if sample.run_id == RUN]
    assert sample.model_dump_json()
    store.close()


@pytest.mark.parametrize("wrong", [-3600.0, 0.0, 3600.0])
def test_the_first_step_is_dated_rightly_also_where_the_clock_of_its_node_is_an_hour_off(
    tmp_path: Path, wrong: float
) -> None:
    attempt = Controller(tmp_path).add(1, "running")
    attempt.directory.mkdir()
    (attempt.directory / "bundle.json").write_text("{}")
    now = time.time()
    progress = Progress(
        step=9,
        loss=None,
        at=now + wrong,
        resumed_from=None,
        first_step_at=now + wrong - 2.0,
        world_size=2,
    )
    assert first_step_at(attempt, progress) == pytest.approx(now - 2.0, abs=1.0)


def test_the_step_of_a_moment_is_the_newest_that_was_said_by_then(tmp_path: Path) -> None:
    attempt = Attempt(RUN, 1, "running", tmp_path)
    assert step_at(attempt, 100.0) is None
    for step in (3, 4, 5):
        note_step(attempt, Progress(step=step, at=100.0 + 10 * step, source="log"), 0.0)
    assert [step_at(attempt, at) for at in (131.0, 139.5, 148.0, 999.0)] == [3, 4, 4, 5]
    assert step_at(attempt, 5.0) == 3, "before the first that is known"
