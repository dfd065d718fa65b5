"""The bench of Slack's acknowledgement sends what the function takes for Slack's."""

from __future__ import annotations

from bench import slack_ack

from trainyard.chat.front.signature import holds, stale


def test_its_command_is_signed_as_slack_signs() -> None:
    made = slack_ack.event(1_796_000_000.5)
    assert holds(slack_ack.SECRET, made["headers"], made["body"].encode())
    assert stale(made["headers"], 1_796_000_001) == ""


def test_it_shows_the_median_and_the_most() -> None:
    found = [{"init": one, "acknowledgement": 2 * one, "cpu": 1.0} for one in (10.0, 90.0, 20.0)]
    shown = slack_ack.summary(found)
    assert shown["initMillisecondsMedian"] == 20
    assert shown["acknowledgementMillisecondsMost"] == 180
