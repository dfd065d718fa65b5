"""What a workspace shows of what an app writes, and when it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from trainyard_local.slack.transcript import transcript
from trainyard_local.slack.workspace import ANSWER_SECONDS, MOST_ANSWERS, Workspace

TOKEN, CHANNEL, USER = "xoxb-1", "C0123ABCDEF", "U0456EFGH"


@dataclass
class Clock:
    now: float = 1_531_420_618.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def space(clock: Clock) -> Workspace:
    made = Workspace(TOKEN, "secret", clock=clock)
    made.add_channel(CHANNEL, "runs")
    return made


def called(space: Workspace, method: str, token: str = TOKEN, **arguments: Any) -> dict[str, Any]:
    status, answer, _ = space.call(method, {"channel": CHANNEL, **arguments}, token)
    assert status == 200
    return answer


def test_a_message_is_written_edited_and_answered_in_its_thread(space: Workspace) -> None:
    ts = called(space, "chat.postMessage", text="one")["ts"]
    called(space, "chat.postMessage", text="a &lt;reply&gt;", thread_ts=ts)
    called(space, "chat.update", ts=ts, text="two")
    assert transcript(space, CHANNEL) == "#runs\n\ntwo\n\n    a <reply>"
    thread = called(space, "conversations.replies", ts=ts)["messages"]
    assert [one["text"] for one in thread] == ["two", "a &lt;reply&gt;"]


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("chat.postMessage", {"channel": "C1", "text": "x"}, "channel_not_found"),
        ("chat.postMessage", {}, "no_text"),
        ("chat.postMessage", {"text": "x", "blocks": [{"type": "chart"}]}, "invalid_blocks"),
        ("chat.postMessage", {"text": "x", "thread_ts": "1.1"}, "thread_not_found"),
        ("chat.update", {"text": "x", "ts": "1.1"}, "message_not_found"),
        ("conversations.replies", {"ts": "1.1"}, "thread_not_found"),
        ("views.open", {"trigger_id": "1"}, "invalid_trigger_id"),
        ("views.publish", {"view": {"type": "modal"}}, "invalid_arguments"),
        ("chat.delete", {}, "unknown_method"),
    ],
)
def test_a_call_that_slack_refuses_is_refused(
    space: Workspace, method: str, arguments: dict[str, Any], error: str
) -> None:
    answer = called(space, method, **arguments)
    assert (answer["ok"], answer["error"]) == (False, error)


def test_troubles_of_app_and_channel_have_slacks_words(space: Workspace) -> None:
    def error(token: str = TOKEN) -> str:
        return str(called(space, "chat.postMessage", token, text="x").get("error", ""))

    assert error("") == "not_authed"
    assert error("xoxb-2") == "invalid_auth"
    space.channels[CHANNEL].archived = True
    assert error() == "is_archived"
    space.channels[CHANNEL].archived, space.channels[CHANNEL].has_bot = False, False
    assert error() == "not_in_channel"
    space.installed = False
    assert error() == "account_inactive"


def test_too_many_calls_are_answered_with_a_pause(space: Workspace) -> None:
    space.limits = [17]
    status, _, headers = space.call("auth.test", {}, TOKEN)
    assert (status, headers) == (429, {"Retry-After": "17"})
    assert called(space, "auth.test")["team_id"] == space.team


def test_an_address_takes_five_answers_and_for_half_an_hour(space: Workspace, clock: Clock) -> None:
    path = space.address(CHANNEL, USER)
    assert space.answer(path, {}) == (400, "no_text")
    answers = [space.answer(path, {"text": "x"}) for _ in range(MOST_ANSWERS + 1)]
    assert [status for status, _ in answers] == [200] * MOST_ANSWERS + [404]
    late = space.address(CHANNEL, USER)
    clock.now += ANSWER_SECONDS + 1
    assert space.answer(late, {"text": "x"}) == (404, "expired_url")
    assert space.answer("/commands/T/none", {"text": "x"}) == (404, "expired_url")


def test_what_one_person_sees_cannot_be_edited_by_the_app(space: Workspace) -> None:
    space.answer(space.address(CHANNEL, USER), {"text": "for you"})
    (message,) = space.of_channel(CHANNEL)
    assert message["only"] == USER
    assert called(space, "chat.update", ts=message["ts"], text="x")["error"] == "message_not_found"
    assert transcript(space, CHANNEL) == "#runs"


def test_a_click_may_replace_its_message_or_take_it_away(space: Workspace) -> None:
    called(space, "chat.postMessage", text="one")
    (message,) = space.of_channel(CHANNEL)
    space.answer(space.address(CHANNEL, USER, message), {"text": "two", "replace_original": True})
    assert [one["text"] for one in space.of_channel(CHANNEL)] == ["two"]
    space.answer(space.address(CHANNEL, USER, message), {"delete_original": True})
    assert space.of_channel(CHANNEL) == []


def test_a_trigger_opens_one_view_within_three_seconds(space: Workspace, clock: Clock) -> None:
    view = {"type": "modal", "title": {"type": "plain_text", "text": "Run"}, "blocks": []}
    trigger = space.trigger()
    assert called(space, "views.open", trigger_id=trigger, view=view)["view"]["id"] in space.views
    assert called(space, "views.open", trigger_id=trigger, view=view)["ok"] is False
    late = space.trigger()
    clock.now += 4
    answer = called(space, "views.open", trigger_id=late, view=view)
    assert answer["error"] == "expired_trigger_id"
