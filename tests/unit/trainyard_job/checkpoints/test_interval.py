"""The interval between saves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_job.checkpoints import interval


@given(st.floats(0.001, 100), st.floats(10, 1e7))
def test_the_interval_is_about_youngs_and_loses_less_than_its_neighbours(
    cost: float, between: float
) -> None:
    chosen = interval.young_daly(cost, between)
    if cost > between / 10:
        assert 0 < chosen <= between * 2
        return

    def lost(seconds: float) -> float:
        """Share of time that is lost: Daly's full model, equation 20, with no time to restart."""
        return between / seconds * math.expm1((seconds + cost) / between) - 1

    assert chosen == pytest.approx(math.sqrt(2 * cost * between), rel=0.35)
    assert lost(chosen) <= lost(chosen * 1.3)
    assert lost(chosen) <= lost(chosen / 1.3)


def test_auto_begins_short_then_follows_what_saves_cost_and_never_crowds_the_writer() -> None:
    auto = interval.Interval(None, between_failures=7200)
    assert auto.seconds() == interval.FIRST_AUTO_SECONDS
    for _ in range(3):
        auto.stalled(0.25)
        auto.written(1.0)
    assert auto.seconds() == pytest.approx(60, rel=0.05)  # sqrt(2 * 0.25 * 7200)
    auto.written(500.0)
    assert auto.seconds() == 1000
    assert interval.Interval(5.0).seconds() == 5.0
    assert interval.Interval(None).seconds() is None
