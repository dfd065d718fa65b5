"""Text of jobs and nodes reaches a person's terminal as text, never as commands."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from trainyard_sdk.terminal_text import plain, plain_document, plain_json

COMMANDS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not set(plain(text)) & {*COMMANDS, "\u202e", "\u2066"}


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Cs"])))
def test_ordinary_text_of_any_language_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_a_title_a_link_and_a_cleared_screen_are_spelt_out() -> None:
    assert plain("\x1b]0;owned\x07 \x1b[2J\x9b31m") == "\\x1b]0;owned\\x07 \\x1b[2J\\x9b31m"


def test_colours_go_and_a_progress_bar_gets_lines() -> None:
    assert plain("\x1b[1;31mError\x1b[0m 10%\r20%\r\ndone") == "Error 10%\n20%\ndone"


def test_a_whole_answer_is_made_plain_and_keeps_its_shape() -> None:
    answer = {"a\x1b": ["\x1b[2J", 1, None, True, {"b": 0.5}]}
    assert plain_document(answer) == {"a\\x1b": ["\\x1b[2J", 1, None, True, {"b": 0.5}]}


@given(st.dictionaries(st.text(), st.text()))
def test_json_for_programs_reads_back_as_the_same_value(value: dict[str, str]) -> None:
    text = plain_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not set(text) & {*COMMANDS, "\u202e"}
