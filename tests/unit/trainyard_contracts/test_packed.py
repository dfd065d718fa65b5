"""A packed answer is what it was, and one that was cut is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from trainyard_agent import cli
from trainyard_contracts.packed import OPTION, SHORT_CHARACTERS, NotWhole, pack, unpack

LONG = "\n".join(f"step {at} loss {at * 0.37}" for at in range(2600))


@given(some.text(), some.integers(1, 4))
def test_any_text_is_the_same_again(text: str, times: int) -> None:
    whole = text * times * 500
    assert unpack(pack(whole)) == whole


def test_a_log_of_more_than_50_000_characters_fits_what_systems_manager_keeps() -> None:
    assert len(LONG) > 50_000
    assert len(pack(LONG)) < 24_000


def test_a_short_answer_is_readable() -> None:
    assert pack("{}") == "{}"
    assert pack("x" * SHORT_CHARACTERS) == "x" * SHORT_CHARACTERS


@pytest.mark.parametrize("length", [8, 20, 401, 9001])
def test_a_part_of_one_is_refused(length: int) -> None:
    with pytest.raises(NotWhole):
        unpack(pack(LONG)[:length])


def test_the_agent_knows_the_option_by_the_same_word() -> None:
    assert cli.PACKED == OPTION
