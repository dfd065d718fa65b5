"""With the callback, the checkpoints of Hugging Face's Trainer are whole or absent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support import job_examples, job_ranks
from tests.support.waiting import eventually

from trainyard_job import STOPPED

pytestmark = pytest.mark.real
NAME = "hugging_face.py"


def test_a_killed_training_resumes_to_the_same_weights_from_a_checkpoint_of_all_ranks(
    tmp_path: Path,
) -> None:
    job_examples.resumed_is_undisturbed(tmp_path, NAME, "--save-steps", "3")
    newest = tmp_path / "cut" / "checkpoints" / "step-000000000009-attempt-2"
    assert {"rng_state_0.pth", "rng_state_1.pth", "trainer_state.json", "optimizer.pt"} <= set(
        os.listdir(newest)
    )


def test_a_stop_saves_and_is_no_end_and_what_is_torn_is_set_aside(tmp_path: Path) -> None:
    arguments = ("--steps", "100000", "--save-steps", "100000")
    ranks = job_examples.start(tmp_path, NAME, 2, *arguments)
    eventually("a step", (tmp_path / "attempts" / "1" / "progress.json").exists, 240)
    ranks[1].send_signal(signal.SIGTERM)
    ended = job_ranks.ends(ranks)
    assert [rank.code for rank in ended] == [STOPPED, STOPPED], job_ranks.told(ended)
    (saved,) = (tmp_path / "checkpoints").glob("step-*")
    step = int(saved.name[5:17])
    output = tmp_path / "work" / "trainer"
    torn = output / f"checkpoint-{step + 1}"
    torn.mkdir()
    (torn / "trainer_state.json").write_text("{")
    last = str(step + 2)
    variables = {"TRAINYARD_ATTEMPT": "2"}
    resumed = job_examples.ended(
        tmp_path, NAME, 2, "--steps", last, "--save-steps", last, **variables
    )
    assert [rank.code for rank in resumed] == [0, 0], job_ranks.told(resumed)
    assert {*os.listdir(output)} == {
        f"checkpoint-{step}", f"checkpoint-{last}", f"torn-checkpoint-{step + 1}-1",
    }  # fmt: skip
    assert (output / f"checkpoint-{step}" / "rng_state_1.pth").exists()
