"""The verdict on the data-parallel job is one of medians over the rounds."""

from __future__ import annotations

from typing import Any

import pytest
from bench.ddp_speed import BATCH, GOAL_SAME_RANKS, GOAL_TWO_RANKS, RANKS, verdict


def measured(**changes: float) -> dict[str, float]:
    reached = 1000.0 * max(GOAL_SAME_RANKS, GOAL_TWO_RANKS)
    plain = {"plain8": 1000.0, "plain2": 1000.0, "ours8": reached, "ours2": 1000.0}
    return {**plain, "reductionMicroseconds": 100.0, "glooMicroseconds": 900.0, **changes}


def told(*rounds: dict[str, float]) -> dict[str, Any]:
    return verdict(list(rounds))


def test_one_slow_round_of_three_changes_nothing() -> None:
    slow = measured(ours8=1.0, plain8=9000.0)
    assert told(measured(), measured(), measured()) == told(measured(), slow, measured())
    assert told(measured())["reached"]
    assert not told(slow, slow, measured())["reached"]


@pytest.mark.parametrize("other", ["plain8", "plain2"])
def test_the_goal_is_missed_if_either_program_is_nearer_than_it_allows(other: str) -> None:
    assert not told(measured(**{other: measured()["ours8"]}))["reached"]


def test_the_limit_is_what_reductions_alone_would_take() -> None:
    limit = RANKS * BATCH / 100.0 * 1e6
    assert told(measured(ours8=limit / 4))["shareOfReductionLimit"] == 0.25
    step = told(measured(ours8=limit))["stepMicroseconds"]["ours8"]
    assert step == 100
