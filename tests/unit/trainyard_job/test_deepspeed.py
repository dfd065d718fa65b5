"""A killed training resumes from the whole checkpoint of the adapter to the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import job_examples

pytestmark = pytest.mark.real


@pytest.mark.long
def test_a_killed_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    job_examples.resumed_is_undisturbed(tmp_path, "deepspeed_zero.py")
