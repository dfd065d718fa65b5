"""A curve shows where values lie, whatever they are."""

from __future__ import annotations

import math

from trainyard_cli.screen.curve import curve


def test_a_falling_loss_falls_from_left_to_right() -> None:
    lines = curve([(step, 10.0 - step) for step in range(10)], width=10, height=2)
    heights = [
        sum(line[3 + column :][:1] not in ("", " ") for line in lines) for column in range(9)
    ]
    assert heights == sorted(heights, reverse=True)
    assert lines[0].startswith("10 ")
    assert lines[1].startswith(" 1 ")


def test_columns_without_a_point_are_empty_and_one_value_is_a_line() -> None:
    (line,) = curve([(0, 1.0), (9, 1.0)], width=10, height=1)
    assert line == "1 ▁        ▁"
    assert curve([(5, 2.0)], width=4, height=1) == ["2 ▁"]


def test_what_is_no_number_is_passed_over() -> None:
    assert curve([(0, math.nan), (1, math.inf)]) == []
    assert curve([]) == []
    assert len(curve([(0, math.nan), (1, 5.0), (2, 4.0)], height=3)) == 3
