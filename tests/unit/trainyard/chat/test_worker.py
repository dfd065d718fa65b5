"""A command is answered once, to who may read, whatever comes twice, late or not at all."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from tests.support.memory import Died
from tests.support.slack import USER, WHO
from tests.support.slack_chat import ALICE, Slack

from trainyard.domain.errors import RetryableError


@pytest.fixture
def slack() -> Slack:
    return Slack()


def test_a_person_of_the_list_is_answered_where_they_typed(slack: Slack) -> None:
    assert "There is no run yet." in slack.say("runs")
    assert slack.replies.sent[0][0].startswith("https://hooks.slack.com/commands/")


def test_the_same_request_is_answered_once(slack: Slack) -> None:
    event = slack.event("runs")
    assert [slack.deliver(event).result for _ in range(3)] == ["answered", "repeated", "repeated"]
    assert len(slack.replies.sent) == 1


@pytest.mark.parametrize("text", ["runs", "runs mine", "show latest", "clusters", "help", "x"])
def test_who_is_not_in_the_list_reads_nothing_and_is_told_how_to_be_let_in(
    slack: Slack, text: str
) -> None:
    said = slack.say(text, user="U999")
    assert "Trainyard does not know you yet" in said
    assert "T0123ABCD/U999" in said
    assert "SlackPeopleArn" in said
    assert "There is no run" not in said


@pytest.mark.parametrize("people", [None, "", "{}"])
def test_without_a_list_nobody_is_known(slack: Slack, people: str | None) -> None:
    slack.people = people
    assert "Trainyard does not know you yet" in slack.say("runs")


def test_a_list_that_cannot_be_read_lets_nobody_in(slack: Slack) -> None:
    slack.people = json.dumps({WHO: "alice"})
    said = slack.say("runs")
    assert "The list of Slack's people cannot be read" in said
    assert "'alice' is not the ARN" in said


def test_roles_hold_as_they_do_for_the_api(slack: Slack) -> None:
    slack.roles(viewers=("arn:aws:iam::111122223333:user/bob",))
    assert "has no role in this stack" in slack.say("runs")
    slack.roles(viewers=(ALICE,))
    assert "There is no run yet." in slack.say("runs")


def test_what_slack_takes_later_is_sent_by_the_repeated_call(slack: Slack) -> None:
    event = slack.event("runs")
    slack.replies.down = True
    with pytest.raises(RetryableError):
        slack.deliver(event)
    slack.replies.down = False
    assert slack.deliver(event).result == "answered"


def test_what_slack_never_takes_is_not_sent_again(slack: Slack) -> None:
    event = slack.event("runs")
    slack.replies.refusal = "Slack answered 404"
    answered = slack.deliver(event)
    assert (answered.result, answered.reason) == ("dropped", "Slack answered 404")
    slack.replies.refusal = ""
    assert slack.deliver(event).result == "repeated"


def test_a_command_that_comes_too_late_is_dropped(slack: Slack) -> None:
    event = slack.event("runs")
    slack.world.clock.tick(timedelta(minutes=30).total_seconds())
    assert slack.deliver(event).reason == "it is too old to be answered"
    assert slack.replies.sent == []


@pytest.mark.parametrize(
    ("field", "value"), [("user", ""), ("team", None), ("responseUrl", 5), ("at", "now")]
)
def test_an_event_that_is_no_command_is_dropped_by_its_field(
    slack: Slack, field: str, value: object
) -> None:
    event = slack.event("runs")
    event["detail"][field] = value
    answered = slack.deliver(event)
    assert answered.result == "dropped"
    assert f"detail.{field}" in answered.reason
    assert slack.deliver({}).reason == "the event has no detail"


@pytest.mark.parametrize("field", ["action", "value", "user", "responseUrl"])
def test_an_event_that_is_no_click_is_dropped_by_its_field(slack: Slack, field: str) -> None:
    event = slack.event("runs")
    event["detail-type"] = "SlackClick"
    event["detail"] |= {"action": "trainyard.do", "value": "{}", field: ""}
    answered = slack.deliver(event)
    assert answered.result == "dropped"
    assert f"detail.{field}" in answered.reason


def test_a_defect_is_answered_and_rings(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr("trainyard.chat.worker.said", broken)
    event = slack.event("runs")
    with pytest.raises(ZeroDivisionError):
        slack.deliver(event)
    (reply,) = slack.replies.sent
    assert event["detail"]["id"] in str(reply)
    assert "secret words" not in str(reply)
    assert slack.deliver(event).result == "repeated"


def test_a_process_that_dies_amid_a_command_leaves_it_to_the_next(slack: Slack) -> None:
    slack.world.fuse.arm(1)
    event = slack.event("runs")
    with pytest.raises(Died):
        slack.deliver(event)
    assert slack.replies.sent == []
    assert slack.claims.states == {event["detail"]["id"]: "in hand"}  # until its time is over


def test_the_log_has_who_and_neither_words_nor_address(slack: Slack) -> None:
    answered = slack.deliver(slack.event("show my-secret-project"))
    assert answered.who == WHO == f"T0123ABCD/{USER}"
    assert "secret" not in str(answered)
    assert "hooks" not in str(answered)
