"""A request is Slack's by its signature over the raw body, for five minutes."""

from __future__ import annotations

import pytest
from tests.support.slack import SECRET, command, signed

from trainyard.chat.front.signature import holds, signature, stale

NOW = 1531420618.0


def test_the_example_of_slacks_documentation_has_the_signature_that_stands_there() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&"
        b"channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&"
        b"command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F"
        b"T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&"
        b"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    expected = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert signature(SECRET, "1531420618", body) == expected


def test_what_slack_sdk_signs_is_taken_and_no_other_body_or_secret() -> None:
    body = command()
    headers = signed(body, NOW)
    assert holds(SECRET, headers, body)
    assert not holds(SECRET, headers, body + b" ")
    assert not holds("another", headers, body)
    assert not holds("", headers, body)


@pytest.mark.parametrize("given", ["", "v0=", "v1=abc", "v0=\u00e9", "\udc80"])
def test_a_signature_that_is_none_is_refused(given: str) -> None:
    assert not holds(SECRET, {**signed(b"x", NOW), "x-slack-signature": given}, b"x")


@pytest.mark.parametrize("late", [-301, 301, 86_400])
def test_a_request_of_another_time_is_stale(late: int) -> None:
    assert "within 300 seconds" in stale(signed(b"x", NOW + late), NOW)


@pytest.mark.parametrize("late", [-300, 0, 300])
def test_a_request_of_about_now_is_not(late: int) -> None:
    assert stale(signed(b"x", NOW + late), NOW) == ""


@pytest.mark.parametrize("stamp", ["", "now", "-5", "1e9", "\u0661\u0662", "9" * 5000, "1.5"])
def test_a_time_that_is_no_number_is_refused_and_raises_nothing(stamp: str) -> None:
    assert "whole number" in stale({"x-slack-request-timestamp": stamp}, NOW)
