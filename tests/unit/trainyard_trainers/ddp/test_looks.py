"""A rank that finds its core shared sleeps soon, whatever the number of ranks, and tries again."""

from __future__ import annotations

from trainyard_trainers.ddp import looks
from trainyard_trainers.ddp.looks import ALONE, SHARED, Looks


def test_ranks_with_a_core_each_look_long_and_more_ranks_than_cores_do_not() -> None:
    assert Looks(2, 2).count == Looks(1, 8).count == ALONE
    assert Looks(8, 2).count == SHARED


def test_looking_that_others_interrupt_becomes_short_until_it_was_calm_for_long() -> None:
    one = Looks(2, 2)
    one.took(0.0004)
    assert one.count == ALONE
    one.took(0.02)
    assert one.count == SHARED
    for _ in range(looks._AGAIN - 1):
        one.took(0.00001)
    assert one.count == SHARED
    one.took(0.00001)
    assert one.count == ALONE


def test_a_load_that_stays_keeps_it_short() -> None:
    one = Looks(2, 2)
    for _ in range(3 * looks._AGAIN):
        one.took(0.005)
    assert one.count == SHARED


def test_more_ranks_than_cores_stay_short_when_the_load_is_gone() -> None:
    one = Looks(8, 2)
    one.took(0.02)
    for _ in range(2 * looks._AGAIN):
        one.took(0.0)
    assert one.count == SHARED
