"""Times as people write them, and what is none."""

from __future__ import annotations

import pytest
import typer

from trainyard_cli.times import seconds

WEEK = seconds(7 * 86400)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("600", 600), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400), ("7d", 604800)],
)
def test_a_time_is_so_many_seconds(text: str, expected: int) -> None:
    assert WEEK(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("soon", "is no time; give seconds, or a time such as 90s, 10m, 2h or 1d"),
        ("5 m", "is no time"),
        ("-5m", "is no time"),
        ("", "is no time"),
        ("0", "is not in the range 1s to 7d"),
        ("8d", "is not in the range 1s to 7d"),
    ],
)
def test_what_is_no_time_is_refused_with_what_would_be_right(text: str, words: str) -> None:
    with pytest.raises(typer.BadParameter, match=words):
        WEEK(text)
