"""A stall counts once, and lateness is forgotten in time."""

from __future__ import annotations

import pytest

from trainyard_agent.nodes.lateness import (
    AWAKE_SECONDS,
    KEPT_SECONDS,
    MOST_LATE_SECONDS,
    NEWEST,
    Attention,
    Lateness,
)


def test_a_stall_that_several_sleeps_end_in_counts_once() -> None:
    attention = Attention()
    assert attention.woke(10.0, 10.5)
    assert attention.woke(10.2, 10.51)
    assert attention.missed(9.0) == pytest.approx(0.51)
    assert attention.missed(10.3) == pytest.approx(0.21), "only what came after the question"
    assert attention.missed(11.0) == 0.0


def test_who_wakes_in_time_missed_nothing() -> None:
    attention = Attention()
    assert not attention.woke(10.0, 10.0 + AWAKE_SECONDS / 2)
    assert attention.missed(0.0) == 0.0


def test_old_stalls_are_forgotten() -> None:
    attention = Attention()
    attention.woke(10.0, 11.0)
    attention.woke(12.0 + KEPT_SECONDS, 13.0 + KEPT_SECONDS)
    assert attention.missed(0.0) == pytest.approx(1.0)


def test_what_is_late_again_and_again_counts_for_a_minute_and_never_without_end() -> None:
    late = Lateness()
    assert late.usual() == 0.0
    late.note(20.0)
    late.note(-0.1)
    assert late.usual() == 0.0, "a single outage is over"
    late.note(1.2)
    assert late.usual() == 1.2
    late.note(9.0)
    assert late.usual() == MOST_LATE_SECONDS
    for _ in range(NEWEST - 1):
        late.note(0.1)
    assert late.usual() == 0.1
