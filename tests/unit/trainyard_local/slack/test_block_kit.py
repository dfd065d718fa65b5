"""The local Slack takes what Slack takes: at each limit, and not beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_local.slack.block_kit import InvalidBlocks, check_message, check_view


def plain(length: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": "x" * length}


def words(length: int) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": "x" * length}


def section(length: int = 1) -> dict[str, Any]:
    return {"type": "section", "text": words(length)}


def button(number: int = 0, **changes: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": f"a{number}", "text": plain(5), **changes}


def actions(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "actions", "elements": list(elements)}


def confirm(**changes: Any) -> dict[str, Any]:
    parts = {"title": plain(100), "text": words(300), "confirm": plain(30), "deny": plain(30)}
    return button(confirm={**parts, **changes})


def options(count: int, length: int = 75) -> dict[str, Any]:
    one = {"text": plain(length), "value": "v" * 150}
    return {"type": "static_select", "action_id": "s", "options": [one] * count}


GOOD: dict[str, list[dict[str, Any]]] = {
    "fifty blocks": [section()] * 50,
    "a long section": [section(3000)],
    "a long header": [{"type": "header", "text": plain(150)}],
    "ten fields": [{"type": "section", "fields": [words(2000)] * 10}],
    "ten in a context": [{"type": "context", "elements": [words(10)] * 10}],
    "many buttons": [actions(*(button(n) for n in range(25)))],
    "a long label": [actions(button(text=plain(75), value="v" * 2000, style="danger"))],
    "a dialog": [actions(confirm())],
    "a select": [{"type": "section", "text": words(1), "accessory": options(100)}],
    "a line": [{"type": "divider"}],
}
BAD: dict[str, list[dict[str, Any]]] = {
    "fifty-one blocks": [section()] * 51,
    "too long a section": [section(3001)],
    "an empty section": [section(0)],
    "nothing in a section": [{"type": "section"}],
    "too long a header": [{"type": "header", "text": plain(151)}],
    "marks in a header": [{"type": "header", "text": words(10)}],
    "eleven fields": [{"type": "section", "fields": [words(1)] * 11}],
    "too long a field": [{"type": "section", "fields": [words(2001)]}],
    "eleven in a context": [{"type": "context", "elements": [words(10)] * 11}],
    "too many buttons": [actions(*(button(n) for n in range(26)))],
    "no button": [actions()],
    "the same button twice": [actions(button(1), button(1))],
    "too long a label": [actions(button(text=plain(76)))],
    "too long a value": [actions(button(value="v" * 2001))],
    "a style of its own": [actions(button(style="loud"))],
    "too long a question": [actions(confirm(text=words(301)))],
    "too long a title": [actions(confirm(title=plain(101)))],
    "too long a yes": [actions(confirm(confirm=plain(31)))],
    "too many options": [{"type": "section", "text": words(1), "accessory": options(101)}],
    "too long an option": [{"type": "section", "text": words(1), "accessory": options(1, 76)}],
    "an unknown block": [{"type": "chart"}],
    "an unknown element": [actions({"type": "lever"})],
    "one id twice": [{**section(), "block_id": "b"}] * 2,
    "no block": ["text"],  # type: ignore[list-item]
}


@pytest.mark.parametrize("name", GOOD)
def test_a_message_within_the_limits_is_taken(name: str) -> None:
    check_message({"text": "said", "blocks": GOOD[name]})


@pytest.mark.parametrize("name", BAD)
def test_a_message_beyond_a_limit_is_not(name: str) -> None:
    with pytest.raises(InvalidBlocks):
        check_message({"text": "said", "blocks": BAD[name]})


def test_a_message_says_something() -> None:
    with pytest.raises(InvalidBlocks, match="no_text"):
        check_message({})


def modal(**changes: Any) -> dict[str, Any]:
    given = {"type": "plain_text_input", "action_id": "i", "initial_value": "x" * 3000}
    block = {"type": "input", "label": plain(2000), "element": given}
    view = {"type": "modal", "title": plain(24), "submit": plain(24), "blocks": [block]}
    return {**view, **changes}


def test_a_modal_within_the_limits_is_taken() -> None:
    check_view(modal(private_metadata="m" * 3000))
    check_view({"type": "home", "blocks": [section()] * 100})


@pytest.mark.parametrize(
    "changes",
    [
        {"title": plain(25)},
        {"submit": plain(25)},
        {"private_metadata": "m" * 3001},
        {"type": "message"},
        {"blocks": [section()] * 101},
    ],
)
def test_a_modal_beyond_a_limit_is_not(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidBlocks):
        check_view(modal(**changes))


def test_a_modal_with_an_input_needs_a_button_that_sends_it() -> None:
    view = modal()
    del view["submit"]
    with pytest.raises(InvalidBlocks, match="submit"):
        check_view(view)
