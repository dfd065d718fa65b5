"""Event patterns match as EventBridge's do, and one of another kind is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sam_on_moto.bus import patterns

EVENT = {
    "source": "a.b",
    "detail": {
        "n": 5,
        "s": "Hello",
        "ok": True,
        "list": ["x", "y"],
        "deep": [{"k": 1}, {"k": 2}],
        "none": None,
    },
}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"source": ["a.b"]}, True),
        ({"source": ["c", "a.b"]}, True),
        ({"source": ["c"]}, False),
        ({"source": [{"prefix": "a."}], "detail": {"s": [{"suffix": "lo"}]}}, True),
        ({"detail": {"s": [{"equals-ignore-case": "hELLO"}]}}, True),
        ({"detail": {"s": [{"wildcard": "H*l*"}]}}, True),
        ({"detail": {"s": [{"anything-but": ["Hello"]}]}}, False),
        ({"detail": {"s": [{"anything-but": {"prefix": "X"}}]}}, True),
        ({"detail": {"n": [{"numeric": [">", 3, "<=", 5]}]}}, True),
        ({"detail": {"n": [{"numeric": [">", 5]}]}}, False),
        ({"detail": {"ok": [1]}}, False),
        ({"detail": {"ok": [True]}}, True),
        ({"detail": {"list": ["y"]}}, True),
        ({"detail": {"list": ["z"]}}, False),
        ({"detail": {"deep": {"k": [2]}}}, True),
        ({"detail": {"deep": {"k": [3]}}}, False),
        ({"detail": {"missing": [{"exists": False}]}}, True),
        ({"detail": {"n": [{"exists": True}]}}, True),
        ({"detail": {"none": [None]}}, True),
        ({"$or": [{"source": ["c"]}, {"detail": {"n": [5]}}]}, True),
    ],
)
def test_patterns_match_as_eventbridge_does(pattern: dict[str, Any], expected: bool) -> None:
    patterns.check(pattern)
    assert patterns.matches(EVENT, pattern) is expected


def test_an_unknown_filter_is_refused_when_the_rule_is_made() -> None:
    with pytest.raises(ValueError, match="'soundex'"):
        patterns.check({"detail": {"s": [{"soundex": "x"}]}})
