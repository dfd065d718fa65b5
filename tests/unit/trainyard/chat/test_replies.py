"""Answers go to the addresses of Slack, are not led elsewhere, and a refusal is told apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.slack import LocalSlack, local_slack

from trainyard.chat.blocks import message
from trainyard.chat.replies import ResponseUrls
from trainyard.domain.errors import RetryableError

pytestmark = pytest.mark.real
MESSAGE = message("Trainyard", ["words"]).wire()


@pytest.fixture(scope="module")
def slack() -> Iterator[LocalSlack]:
    with local_slack() as made:
        yield made


def test_an_address_takes_five_answers(slack: LocalSlack) -> None:
    replies = ResponseUrls(slack.url)
    said = [replies.send(slack.response_url("five"), MESSAGE) for _ in range(6)]
    assert said == [""] * 5 + ["Slack answered 404"]
    assert slack.answers("five") == [MESSAGE] * 5


@pytest.mark.parametrize("status", [429, 500, 503])
def test_trouble_that_passes_is_tried_later(slack: LocalSlack, status: int) -> None:
    slack.troubles.append(status)
    with pytest.raises(RetryableError, match=str(status)):
        ResponseUrls(slack.url).send(slack.response_url("later"), MESSAGE)


@pytest.mark.parametrize("status", [302, 307, 308, 404, 410])
def test_a_dead_address_and_a_redirect_are_given_up(slack: LocalSlack, status: int) -> None:
    slack.troubles.append(status)
    said = ResponseUrls(slack.url).send(slack.response_url("dead"), MESSAGE)
    assert said == f"Slack answered {status}"


def test_nothing_is_sent_to_another_host(slack: LocalSlack) -> None:
    replies = ResponseUrls("https://hooks.slack.com/")
    for url in (
        slack.response_url("other"),
        "https://hooks.slack.com.example.org/x",
        "https://hooks.slack.com@127.0.0.1/x",
        "file:///etc/passwd",
    ):
        assert "does not begin with https://hooks.slack.com/" in replies.send(url, MESSAGE)
    assert slack.answers("other") == []


def test_slack_that_cannot_be_reached_is_tried_later() -> None:
    with pytest.raises(RetryableError, match="cannot be reached"):
        ResponseUrls("http://127.0.0.1:9/").send("http://127.0.0.1:9/x", MESSAGE)
