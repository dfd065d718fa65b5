"""With the callback, Lightning's checkpoints are whole, and have the random states of all ranks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support import job_examples

pytestmark = pytest.mark.real


def test_a_killed_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    job_examples.resumed_is_undisturbed(tmp_path, "lightning_module.py", "--devices", "2")
    newest = tmp_path / "cut" / "checkpoints" / "step-000000000009-attempt-2"
    assert {"random-00000.pt", "random-00001.pt"} <= set(os.listdir(newest))
