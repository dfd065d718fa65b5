"""What a save costs is what its steps took beyond the quiet ones."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from bench.checkpoint_stall import measure

EVERY = 6


def lines(extra: dict[int, float], steps: int = 24) -> list[dict[str, Any]]:
    """steps.jsonl of a job whose steps take 1 s, and so much more."""
    seconds = [1.0 + extra.get(step, 0.0) for step in range(1, steps + 1)]
    return [{"step": step, "at": at} for step, at in enumerate(accumulate(seconds), 1)]


def test_the_stall_is_the_step_with_the_save_and_the_slowdown_all_until_the_next_one() -> None:
    found = measure(lines({7: 3.0, 8: 0.5, 13: 2.0}), EVERY)
    assert [save["stallSeconds"] for save in found] == pytest.approx([3.0, 2.0])
    assert [save["slowdownSeconds"] for save in found] == pytest.approx([3.5, 2.0])
    assert {save["stepSeconds"] for save in found} == {1.0}


def test_the_first_steps_and_the_last_save_do_not_count() -> None:
    found = measure(lines({2: 50.0, 3: 50.0, 19: 90.0}), EVERY)
    assert [save["slowdownSeconds"] for save in found] == pytest.approx([0.0, 0.0])
