"""What Slack sends is verified, put on the bus once read, and acknowledged without an answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from tests.support.slack import (
    FIELDS,
    SECRET,
    TEAM,
    USER,
    click,
    command,
    happening,
    signed,
    submission,
)

from trainyard.chat.front.aws_call import CallFailed
from trainyard.chat.front.receive import NOT_QUEUED, Front
from trainyard.chat.requests import FORM, SlackClick, SlackCommand, SlackForm, SlackHome

NOW = 1_796_000_000.0


@dataclass
class Aws:
    """Secrets Manager and the bus; `broken` names the operations that fail."""

    secret: str = SECRET
    broken: set[str] = field(default_factory=set)
    reads: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    failed_entries: int = 0
    now: float = NOW

    def call(
        self, service: str, target: str, request: Mapping[str, Any], now: datetime
    ) -> dict[str, Any]:
        operation = target.partition(".")[2]
        if operation in self.broken:
            raise CallFailed(f"{target}: HTTP 500")
        if operation == "GetSecretValue":
            assert (service, request) == ("secretsmanager", {"SecretId": "arn:secret"})
            self.reads += 1
            return {"SecretString": f"{self.secret}\n"}
        assert (service, operation) == ("events", "PutEvents")
        if not self.failed_entries:
            self.events += request["Entries"]
        return {"FailedEntryCount": self.failed_entries, "Entries": [{"ErrorCode": "Throttled"}]}

    @property
    def front(self) -> Front:
        return Front("arn:secret", "bus", self, clock=lambda: self.now)


def event(body: bytes, headers: dict[str, str], *, encoded: bool = False) -> dict[str, Any]:
    text = base64.b64encode(body).decode() if encoded else body.decode()
    return {"headers": headers, "body": text, "isBase64Encoded": encoded}


def sent(body: bytes, **more: Any) -> dict[str, Any]:
    return event(body, signed(body, NOW), **more)


@pytest.mark.parametrize("encoded", [False, True])
def test_a_command_is_queued_for_the_worker_and_acknowledged_with_nothing(encoded: bool) -> None:
    aws = Aws()
    answer = aws.front.handle(sent(command(text="show latest"), encoded=encoded))
    assert (answer["statusCode"], answer["body"]) == (200, "")
    (entry,) = aws.events
    assert (entry["EventBusName"], entry["Source"]) == ("bus", "trainyard.slack")
    asked = SlackCommand.of({"detail": json.loads(entry["Detail"])})
    assert (asked.team, asked.user, asked.text) == (TEAM, USER, "show latest")
    assert asked.trigger == FIELDS["trigger_id"]
    assert asked.response_url.startswith("https://hooks.slack.com/commands/")
    assert asked.at.timestamp() == NOW


def test_slacks_retry_has_the_same_id_and_another_command_another() -> None:
    aws = Aws()
    front = aws.front
    first = sent(command())
    again = {**first, "headers": {**first["headers"], "x-slack-retry-num": "1"}}
    for one in (first, again, sent(command(trigger_id="2")), sent(command(trigger_id=""))):
        assert front.handle(one)["statusCode"] == 200
    ids = [json.loads(entry["Detail"])["id"] for entry in aws.events]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"x-slack-signature": "v0=" + "0" * 64},
        {"x-slack-signature": ""},
        {"x-slack-request-timestamp": str(int(NOW) - 301)},
        {"x-slack-request-timestamp": "yesterday"},
    ],
)
def test_what_is_not_slacks_is_refused_and_queues_nothing(change: dict[str, str]) -> None:
    aws, body = Aws(), command()
    answer = aws.front.handle(event(body, {**signed(body, NOW), **change}))
    assert answer["statusCode"] == 401
    assert aws.events == []


def test_a_request_without_anything_is_refused_and_reads_no_secret() -> None:
    aws = Aws()
    assert aws.front.handle({})["statusCode"] == 401
    assert aws.front.handle({"body": "%%%", "isBase64Encoded": True})["statusCode"] == 401
    assert aws.reads == 0


def test_the_secret_is_read_once_for_many_requests() -> None:
    aws = Aws()
    front = aws.front
    for number in range(5):
        front.handle(sent(command(trigger_id=str(number))))
    assert (aws.reads, len(aws.events)) == (1, 5)


def test_a_new_signing_secret_is_found_and_forged_requests_read_it_seldom() -> None:
    aws = Aws(secret="the one before")
    front = aws.front
    assert front.handle(sent(command()))["statusCode"] == 401
    aws.secret = SECRET
    assert front.handle(sent(command()))["statusCode"] == 401
    assert aws.reads == 1
    aws.now += 11
    assert front.handle(sent(command()))["statusCode"] == 200
    assert aws.reads == 2


def test_a_field_that_lacks_is_named() -> None:
    answer = Aws().front.handle(sent(command(response_url="", user_id="")))
    assert answer["statusCode"] == 400
    assert "user_id, response_url" in answer["body"]


BUTTON = {"type": "button", "action_id": "trainyard.do", "value": '{"act":"cancel"}'}
ABOUT = '{"run": "run-1", "url": "https://hooks.slack.com/commands/T0123ABCD/1/x"}'
VIEW = {"type": "modal", "callback_id": FORM, "private_metadata": ABOUT}


@pytest.mark.parametrize("encoded", [False, True])
def test_a_click_is_queued_for_the_worker_and_acknowledged_with_nothing(encoded: bool) -> None:
    aws = Aws()
    answer = aws.front.handle(sent(click(BUTTON), encoded=encoded))
    assert (answer["statusCode"], answer["body"]) == (200, "")
    (entry,) = aws.events
    assert (entry["Source"], entry["DetailType"]) == ("trainyard.slack", "SlackClick")
    clicked = SlackClick.of({"detail": json.loads(entry["Detail"])})
    assert (clicked.who, clicked.action) == (f"{TEAM}/{USER}", "trainyard.do")
    assert clicked.value == BUTTON["value"]
    assert clicked.response_url.startswith("https://hooks.slack.com/actions/")


def test_a_click_that_slack_sends_again_has_the_same_id_and_another_click_another() -> None:
    aws = Aws()
    front = aws.front
    for body in (click(BUTTON), click(BUTTON), click(BUTTON, trigger_id="2")):
        front.handle(sent(body))
    first, again, other = (json.loads(entry["Detail"])["id"] for entry in aws.events)
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    "body",
    [
        click({**BUTTON, "action_id": "somebody.elses"}),
        submission({**VIEW, "callback_id": "somebody.elses"}, {}),
        click(BUTTON, type="shortcut", actions=[]),
    ],
)
def test_an_interaction_with_nothing_of_ours_is_acknowledged_and_dropped(body: bytes) -> None:
    aws = Aws()
    assert aws.front.handle(sent(body))["statusCode"] == 200
    assert aws.events == []


@pytest.mark.parametrize(
    "body",
    [
        b"payload=%7B",
        b"payload=[]",
        b"payload=null",
        b"payload={}",
        click(BUTTON, actions=[]),
        click(BUTTON, team=None),
        click({"action_id": "trainyard.do"}),
    ],
)
def test_an_interaction_of_another_form_is_refused_by_its_field(body: bytes) -> None:
    aws = Aws()
    answer = aws.front.handle(sent(body))
    assert answer["statusCode"] == 400
    assert "payload" in answer["body"]
    assert aws.events == []


@pytest.mark.parametrize("encoded", [False, True])
def test_a_form_is_queued_with_its_fields_and_closes(encoded: bool) -> None:
    aws = Aws()
    body = submission(VIEW, {"name": "second", "nodes": "2", "budget": None})
    answer = aws.front.handle(sent(body, encoded=encoded))
    assert (answer["statusCode"], answer["body"]) == (200, "")
    (entry,) = aws.events
    assert (entry["Source"], entry["DetailType"]) == ("trainyard.slack", "SlackForm")
    form = SlackForm.of({"detail": json.loads(entry["Detail"])})
    assert (form.who, form.form, form.run) == (f"{TEAM}/{USER}", FORM, "run-1")
    assert form.values == {"name": "second", "nodes": "2", "budget": ""}
    assert form.response_url == "https://hooks.slack.com/commands/T0123ABCD/1/x"


@pytest.mark.parametrize(
    "body",
    [
        submission(VIEW, {"arguments": "a" * 30_000}),
        submission(VIEW, {}, team=None),
        submission({"callback_id": FORM}, {}),
    ],
)
def test_a_form_that_is_none_of_ours_in_truth_is_refused(body: bytes) -> None:
    aws = Aws()
    assert aws.front.handle(sent(body))["statusCode"] == 400
    assert aws.events == []


def test_a_forged_form_is_refused_and_one_that_the_bus_does_not_take_stays_open() -> None:
    aws, body = Aws(), submission(VIEW, {"name": "x"})
    headers = signed(body, NOW, "another secret")
    assert aws.front.handle(event(body, headers))["statusCode"] == 401
    assert aws.events == []
    assert Aws(broken={"PutEvents"}).front.handle(sent(body))["statusCode"] == 503


def test_a_forged_click_is_refused() -> None:
    aws = Aws()
    headers = signed(click(BUTTON), NOW, "another secret")
    assert aws.front.handle(event(click(BUTTON), headers))["statusCode"] == 401
    assert aws.events == []


def test_a_click_that_the_bus_does_not_take_is_no_success_to_slack() -> None:
    assert Aws(broken={"PutEvents"}).front.handle(sent(click(BUTTON)))["statusCode"] == 503


def test_slacks_look_at_the_certificate_is_answered() -> None:
    aws = Aws()
    assert aws.front.handle(sent(b"ssl_check=1&token=x"))["statusCode"] == 200
    assert aws.events == []


def test_a_bus_that_takes_nothing_is_told_to_the_person() -> None:
    for aws in (Aws(broken={"PutEvents"}), Aws(failed_entries=1)):
        answer = aws.front.handle(sent(command()))
        assert answer["statusCode"] == 200
        said = json.loads(answer["body"])
        assert said == {"response_type": "ephemeral", "text": NOT_QUEUED}


def test_without_its_secret_nothing_is_taken() -> None:
    aws = Aws(broken={"GetSecretValue"})
    assert aws.front.handle(sent(command()))["statusCode"] == 503
    assert aws.events == []


def happened(body: bytes) -> dict[str, Any]:
    return event(body, signed(body, NOW, kind="application/json"))


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
def test_a_home_that_is_opened_is_queued_with_its_own_time(kind: str) -> None:
    aws, body = Aws(), happening(event_time=int(NOW) - 40)
    answer = aws.front.handle(event(body, signed(body, NOW, kind=kind)))
    assert (answer["statusCode"], answer["body"]) == (200, "")
    (entry,) = aws.events
    assert (entry["Source"], entry["DetailType"]) == ("trainyard.slack", "SlackHome")
    opened = SlackHome.of({"detail": json.loads(entry["Detail"])})
    assert (opened.team, opened.user, opened.place) == (TEAM, USER, "home")
    assert opened.at.timestamp() == NOW - 40


def test_an_event_that_slack_sends_again_has_the_same_id_and_another_event_another() -> None:
    aws = Aws()
    front = aws.front
    for body in (happening(), happening(event_context="x"), happening(event_id="Ev2")):
        front.handle(happened(body))
    first, again, other = (json.loads(entry["Detail"])["id"] for entry in aws.events)
    assert first == again
    assert first != other


def test_slack_looks_whether_the_address_is_ours() -> None:
    aws, body = Aws(), json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB"}).encode()
    answer = aws.front.handle(happened(body))
    assert (answer["statusCode"], answer["body"]) == (200, "3eZbrw1aB")
    assert answer["headers"]["content-type"].startswith("text/plain")
    assert aws.events == []
    forged = event(body, signed(body, NOW, "another secret", kind="application/json"))
    assert aws.front.handle(forged)["statusCode"] == 401


@pytest.mark.parametrize(
    "body",
    [
        happening({"type": "app_home_opened", "user": USER, "tab": "messages"}),
        happening({"type": "app_uninstalled"}),
        happening({"type": "message", "text": "hello"}),
        happening(type="app_rate_limited"),
    ],
)
def test_an_event_that_is_nothing_to_us_is_acknowledged_and_dropped(body: bytes) -> None:
    aws = Aws()
    assert aws.front.handle(happened(body))["statusCode"] == 200
    assert aws.events == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"null",
        b'{"type": "url_verification"}',
        happening(event=None, event_id="x", event_time="soon"),
        happening(team_id=None, event_time=None),
        json.dumps({"type": "event_callback", "event": []}).encode(),
    ],
)
def test_an_event_of_another_form_is_refused(body: bytes) -> None:
    aws = Aws()
    answer = aws.front.handle(happened(body))
    assert answer["statusCode"] == 400
    assert "as Slack sends events" in answer["body"]
    assert aws.events == []


def test_a_replayed_and_a_forged_event_are_refused_and_one_that_the_bus_lost_comes_again() -> None:
    aws, body = Aws(), happening()
    old = event(body, signed(body, NOW - 301, kind="application/json"))
    forged = event(body, signed(body, NOW, "another secret", kind="application/json"))
    for one in (old, forged):
        assert aws.front.handle(one)["statusCode"] == 401
    assert aws.events == []
    assert Aws(broken={"PutEvents"}).front.handle(happened(body))["statusCode"] == 503


def test_a_click_in_a_home_has_no_response_url() -> None:
    aws = Aws()
    view = {"id": "V1", "type": "home", "blocks": []}
    given = json.loads(dict(parse_qsl(click(BUTTON, view=view).decode()))["payload"])
    del given["response_url"]
    body = urlencode({"payload": json.dumps(given)}).encode()
    assert aws.front.handle(sent(body))["statusCode"] == 200
    (entry,) = aws.events
    clicked = SlackClick.of({"detail": json.loads(entry["Detail"])})
    assert (clicked.place, clicked.response_url) == ("home", "")
    assert clicked.trigger == given["trigger_id"]


def test_what_is_wrong_in_a_form_is_said_in_the_form_and_queued_when_it_is_right() -> None:
    aws = Aws()
    answer = aws.front.handle(sent(submission(VIEW, {"name": "a_b", "nodes": "two", "hours": "1"})))
    assert answer["statusCode"] == 200
    assert answer["headers"]["content-type"] == "application/json"
    assert json.loads(answer["body"]) == {
        "response_action": "errors",
        "errors": {
            "name": "Must be letters, digits and inner hyphens, 1 to 63 of them (no underscore).",
            "nodes": "Must be a whole number, such as 2.",
        },
    }
    assert aws.events == []
    right = submission(VIEW, {"name": "a-b", "nodes": " 2 ", "hours": "1"})
    assert aws.front.handle(sent(right))["body"] == ""
    assert len(aws.events) == 1
