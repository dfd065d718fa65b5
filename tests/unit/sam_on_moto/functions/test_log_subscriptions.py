"""A subscription filter lets pass the lines that its pattern describes, and no others."""

from __future__ import annotations

import json

import pytest

from sam_on_moto.functions.log_subscriptions import BadPattern, judge
from trainyard.backends.parallelcluster.subscription import PATTERN


def line(kind: str, count: int | None = None) -> str:
    detail = {} if count is None else {"count": count}
    return json.dumps({"event-type": kind, "detail": detail})


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (line("node-launch-failure-count", 2), True),
        (line("node-launch-failure-count", 0), False),
        (line("custom-action-error"), True),
        (line("cluster-instance-count", 3), False),
        (line("protected-mode-error-count"), False),
        ("no JSON", False),
        ("[1]", False),
    ],
)
def test_our_pattern_lets_trouble_pass(text: str, passes: bool) -> None:
    assert judge(PATTERN)(text) == passes


@pytest.mark.parametrize(
    ("pattern", "passes"),
    [
        ("", True),
        ('{ $.a = "x" }', True),
        ('{ $.a != "x" }', False),
        ("{ $.n >= 2 }", True),
        ("{ $.n < 2 }", False),
        ('{ ($.n > 5) || (($.a = "x") && ($.b.c <= 1)) }', True),
        ("{ $.missing = 1 }", False),
        ("{ $.a > 1 }", False),
    ],
)
def test_comparisons_are_those_of_the_words(pattern: str, passes: bool) -> None:
    assert judge(pattern)(json.dumps({"a": "x", "n": 2, "b": {"c": 1}})) == passes


@pytest.mark.parametrize(
    "pattern",
    ["ERROR", "{ $.a }", '{ $.a > "x" }', '{ ($.a = "x" }', "{ $.a IS NULL }", "{ a = 1 }"],
)
def test_a_pattern_that_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        judge(pattern)
