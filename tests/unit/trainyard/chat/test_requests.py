"""What the front put on the bus is read back as what it was, or it is said what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.chat.requests import SlackClick, SlackCommand, SlackForm, request_of

COMMON = {"id": "1", "at": 1_796_000_000, "team": "T1", "user": "U1", "responseUrl": "https://x/"}


def event(kind: str, **detail: Any) -> dict[str, Any]:
    return {"detail-type": kind, "detail": {**COMMON, **detail}}


def test_the_two_kinds_are_told_apart_by_the_events_type() -> None:
    typed = request_of(event("SlackCommand", command="/trainyard", text="runs"))
    assert isinstance(typed, SlackCommand)
    assert (typed.text, typed.who) == ("runs", "T1/U1")
    clicked = request_of(event("SlackClick", action="trainyard.do", value="{}"))
    assert isinstance(clicked, SlackClick)
    assert (clicked.action, clicked.value, clicked.who) == ("trainyard.do", "{}", "T1/U1")


def test_a_form_has_the_address_for_answers_that_its_command_had() -> None:
    about = '{"run": "run-1", "url": "https://y/"}'
    sent = request_of(
        event("SlackForm", form="trainyard.submit", about=about, values='{"a": null}')
    )
    assert isinstance(sent, SlackForm)
    assert (sent.run, sent.response_url, sent.values) == ("run-1", "https://y/", {"a": ""})


@pytest.mark.parametrize(
    ("about", "values", "wrong"),
    [
        ("{", "{}", "detail.about must be a JSON object"),
        ("[]", "{}", "detail.about must be a JSON object"),
        ('{"run": "run-1"}', "{}", "detail.about.url must be a text"),
        ('{"url": "https://y/", "run": 1}', "{}", "detail.about.run must be a text"),
        ('{"run": "run-1", "url": "https://y/"}', "1", "detail.values must be a JSON object"),
    ],
)
def test_a_form_that_is_none_is_named(about: str, values: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        request_of(event("SlackForm", form="trainyard.submit", about=about, values=values))


def test_a_command_without_text_asks_for_help() -> None:
    typed = request_of(event("SlackCommand", command="/trainyard", text=None))
    assert isinstance(typed, SlackCommand)
    assert typed.text == ""


@pytest.mark.parametrize(("kind", "field"), [("SlackCommand", "command"), ("SlackClick", "action")])
def test_what_lacks_is_named(kind: str, field: str) -> None:
    with pytest.raises(ValueError, match=f"detail.{field} must be a text"):
        request_of(event(kind, value="{}"))
