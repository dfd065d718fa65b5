"""What an attempt reports is gathered in bounded memory, whatever its names and numbers are."""

from __future__ import annotations

import json
import math

from trainyard_agent.jobs.collected import Collected, joined, losses_of
from trainyard_contracts.curves import (
    LONGEST_NAME,
    MOST_NAMES,
    MOST_POINTS,
    MOST_POINTS_IN_ALL,
    KeptCurve,
)


def test_numbers_that_are_not_finite_are_counted_and_leave_a_gap() -> None:
    found = Collected()
    for step, value in enumerate([1.0, math.nan, math.inf, -math.inf, None, 10**400, 2, True, "x"]):
        found.add("rate", step, 100.0 + step, value)
    [curve] = found.curves()
    assert curve == KeptCurve(
        name="rate", points=[(0, 100.0, 1.0), (6, 106.0, 2.0)], reports=7, not_finite=5
    )


def test_ten_thousand_names_are_bounded_and_the_first_ones_are_kept_whole() -> None:
    found = Collected()
    for step in range(20):
        for number in range(10_000):
            found.add(f"name-{number}", step, 1.0, number)
    curves, left_out = joined([found])
    assert [curve.name for curve in curves] == [f"name-{number}" for number in range(MOST_NAMES)]
    assert left_out == 10_000 - MOST_NAMES
    assert all(len(curve.points) == 20 for curve in curves)


def test_many_names_share_the_points() -> None:
    found = Collected()
    for step in range(3 * MOST_POINTS):
        for number in range(MOST_NAMES if step > MOST_POINTS else 1):
            found.add(str(number), step, 1.0, float(step))
    curves, _ = joined([found])
    assert sum(len(curve.points) for curve in curves) <= MOST_POINTS_IN_ALL
    first = [point[2] for point in curves[0].points]
    assert (min(first), max(first), first[-1]) == (0, 3 * MOST_POINTS - 1, 3 * MOST_POINTS - 1)
    assert curves[0].reports == 3 * MOST_POINTS


def test_a_name_may_hold_every_character_and_no_more_than_so_many() -> None:
    every = "".join(map(chr, range(100)))
    found = Collected()
    for name in (every, "\ud800", "é\n\x1b[31m", "x" * (LONGEST_NAME + 1), ""):
        found.add(name, 1, 1.0, 1.0)
    curves, left_out = joined([found])
    assert [curve.name for curve in curves] == [every, "?", "é\n\x1b[31m"]
    assert left_out == 2
    assert json.loads(curves[0].model_dump_json())["name"] == every


def test_points_are_in_the_order_of_their_steps_though_a_clock_goes_back() -> None:
    found = Collected()
    for step, at in ((1, 50.0), (2, 40.0), (4, 10.0), (3, 60.0)):
        found.add("loss", step, at, float(step))
    [curve] = found.curves()
    assert curve.points == [(1, 50.0, 1.0), (2, 40.0, 2.0), (3, 60.0, 3.0), (4, 10.0, 4.0)]


def test_the_highest_step_is_kept_though_it_was_not_the_last() -> None:
    found = Collected()
    found.add("loss", 10**6, 1.0, 0.5)
    for step in range(20_000):
        found.add("loss", step, 1.0, 0.5)
    assert found.curves()[0].points[-1][0] == 10**6


def test_of_one_name_the_first_part_counts() -> None:
    first, second = Collected(), Collected()
    first.add("loss", 1, 1.0, 0.25)
    second.add("loss", 1, 1.0, 0.75)
    second.add("other", 1, 1.0, 1.0)
    curves, _ = joined([first, second])
    assert [(curve.name, curve.points[0][2]) for curve in curves] == [("loss", 0.25), ("other", 1)]


def test_losses_from_before_a_restart_are_joined_to_those_that_were_read_again() -> None:
    before = [(1, 10.0, 0.9), (2, 20.0, 0.8)]
    [curve] = losses_of([(2, 99.0, 0.8), (3, 100.0, 0.7)], before).curves()
    assert curve.points == [(1, 10.0, 0.9), (2, 20.0, 0.8), (3, 100.0, 0.7)]
