"""Words for checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_cli.screen.words import began_with, mark


def test_a_copy_that_is_only_counted_is_no_step() -> None:
    assert mark({"step": 40}) == "step 40"
    assert mark({"step": 3, "counted": True}) == "copy 3"


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        ({"resumedFrom": 40, "beganWith": "step 50"}, "step 40"),
        ({"resumedFrom": None, "beganWith": "copy 3"}, "copy 3"),
        ({"resumedFrom": None}, ""),
    ],
)
def test_an_attempt_began_with_what_its_program_says_or_else_with_what_was_there(
    attempt: dict[str, Any], words: str
) -> None:
    assert began_with(attempt) == words
