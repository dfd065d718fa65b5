"""An app of slack_bolt, which is not ours, lives in the local Slack as it does in Slack."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from slack_bolt import App
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from tests.support.ports import free_port
from tests.support.waiting import eventually

from trainyard_local.slack.server import LocalSlack, NotAcknowledged, listening, signature
from trainyard_local.slack.workspace import Workspace

pytestmark = pytest.mark.real
TOKEN, SECRET, CHANNEL, USER = "xoxb-1", "s3cret", "C0123ABCDEF", "U0456EFGH"


@dataclass
class Bolt:
    """A small app, and what it was asked for."""

    slack: LocalSlack
    seen: list[str] = field(default_factory=list)

    def app(self) -> App:
        client = WebClient(token=TOKEN, base_url=self.slack.api)
        made = App(client=client, signing_secret=SECRET, process_before_response=True)

        @made.command("/trainyard")
        def typed(ack: Any, respond: Any, command: dict[str, Any]) -> None:
            ack()
            text = {"type": "plain_text", "text": "Press"}
            button = {"type": "button", "action_id": "press", "text": text, "value": "v"}
            blocks = [{"type": "actions", "elements": [button]}]
            respond(text=f"you typed {command['text']}", blocks=blocks)

        @made.action("press")
        def pressed(ack: Any, respond: Any, body: dict[str, Any], client: WebClient) -> None:
            ack()
            self.seen.append(f"pressed by {body['user']['id']}")
            view = {
                "type": "modal",
                "callback_id": "ask",
                "title": {"type": "plain_text", "text": "Ask"},
                "submit": {"type": "plain_text", "text": "Go"},
                "blocks": [
                    {
                        "type": "input",
                        "block_id": "name",
                        "label": {"type": "plain_text", "text": "Name"},
                        "element": {"type": "plain_text_input", "action_id": "given"},
                    }
                ],
            }
            client.views_open(trigger_id=body["trigger_id"], view=view)
            respond(text="pressed", replace_original=True)

        @made.view("ask")
        def asked(ack: Any, view: dict[str, Any]) -> None:
            given = view["state"]["values"]["name"]["given"]["value"]
            if not given:
                ack(response_action="errors", errors={"name": "must not be empty"})
                return
            ack()
            self.seen.append(f"given {given}")

        @made.event("app_home_opened")
        def home(event: dict[str, Any], client: WebClient) -> None:
            block = {"type": "section", "text": {"type": "mrkdwn", "text": "Your runs"}}
            text = {"type": "plain_text", "text": "Decide"}
            button = {"type": "button", "action_id": "decide", "text": text, "value": "v"}
            blocks = [block, {"type": "actions", "elements": [button]}]
            client.views_publish(user_id=event["user"], view={"type": "home", "blocks": blocks})

        @made.action("decide")
        def decided(ack: Any, body: dict[str, Any], client: WebClient) -> None:
            ack()
            assert "response_url" not in body, "a home has none"
            assert body["container"]["type"] == body["view"]["type"].replace("home", "view")
            block = {"type": "section", "text": {"type": "mrkdwn", "text": "Decided"}}
            view = {"type": "home", "blocks": [block]}
            client.views_publish(user_id=body["user"]["id"], view=view)

        return made


@pytest.fixture(scope="module")
def slack() -> Iterator[LocalSlack]:
    space = Workspace(TOKEN, SECRET)
    space.add_channel(CHANNEL, "runs")
    with listening(space) as made:
        yield made


@pytest.fixture(scope="module")
def bolt(slack: LocalSlack) -> Bolt:
    made, port = Bolt(slack), free_port()
    app = made.app()
    threading.Thread(target=app.start, kwargs={"port": port}, daemon=True).start()
    address = f"http://127.0.0.1:{port}/slack/events"
    slack.commands_url = slack.interactions_url = slack.events_url = address

    def answers() -> bool:
        try:
            slack.open_home(user="U0FIRST")
        except NotAcknowledged:
            return False
        return True

    eventually("the app answers", answers)
    return made


def newest(slack: LocalSlack) -> dict[str, Any]:
    return slack.workspace.of_channel(CHANNEL)[-1]


def test_an_app_answers_a_command_a_click_and_a_modal(slack: LocalSlack, bolt: Bolt) -> None:
    slack.command("runs", user=USER, channel=CHANNEL)
    message = newest(slack)
    assert (message["text"], message["only"]) == ("you typed runs", USER)
    slack.click(message, "Press", user=USER)
    assert newest(slack)["text"] == "pressed"
    assert bolt.seen == [f"pressed by {USER}"]
    (view,) = [one for one in slack.workspace.views.values() if one["type"] == "modal"]
    wrong = slack.submit(view, {"name": {"given": {"value": ""}}}, user=USER)
    assert wrong == {"response_action": "errors", "errors": {"name": "must not be empty"}}
    assert slack.submit(view, {"name": {"given": {"value": "x"}}}, user=USER) == {}
    assert bolt.seen[1:] == ["given x"]


def test_an_app_fills_the_home_that_a_person_opens(slack: LocalSlack, bolt: Bolt) -> None:
    slack.open_home(user=USER)
    assert slack.workspace.homes[USER]["blocks"][0]["text"]["text"] == "Your runs"
    slack.click_home("Decide", user=USER)
    assert slack.workspace.homes[USER]["blocks"][0]["text"]["text"] == "Decided"
    slack.open_home(user=USER)
    assert slack.workspace.homes[USER]["blocks"][0]["text"]["text"] == "Your runs"


def test_an_app_answers_the_challenge_of_an_address_for_events(
    slack: LocalSlack, bolt: Bolt
) -> None:
    assert b"challenge" in slack.challenge()


def test_an_app_does_not_take_what_is_signed_with_another_secret(
    slack: LocalSlack, bolt: Bolt
) -> None:
    slack.workspace.secret = "another"
    try:
        with pytest.raises(NotAcknowledged, match="401"):
            slack.command("runs", user=USER, channel=CHANNEL)
    finally:
        slack.workspace.secret = SECRET


def test_its_signature_is_that_of_slack() -> None:
    made = signature(SECRET, "1531420618", b"text=%E2%82%AC")
    verifier = SignatureVerifier(SECRET)
    assert made == verifier.generate_signature(timestamp="1531420618", body=b"text=%E2%82%AC")


def test_slacks_own_client_writes_edits_and_is_refused(slack: LocalSlack) -> None:
    client = WebClient(token=TOKEN, base_url=slack.api)
    posted = client.chat_postMessage(channel=CHANNEL, text="one")
    reply = client.chat_postMessage(channel=CHANNEL, text="two", thread_ts=posted["ts"])
    client.chat_update(channel=CHANNEL, ts=posted["ts"], text="edited")
    thread = client.conversations_replies(channel=CHANNEL, ts=posted["ts"])["messages"]
    assert [one["text"] for one in thread] == ["edited", "two"]
    assert thread[1]["ts"] == reply["ts"]
    header = {"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}
    with pytest.raises(SlackApiError) as refused:
        client.chat_postMessage(channel=CHANNEL, text="x", blocks=[header])
    assert refused.value.response["error"] == "invalid_blocks"
    slack.workspace.limits = [17]
    with pytest.raises(SlackApiError) as limited:
        client.auth_test()
    assert limited.value.response.headers["Retry-After"] == "17"


def test_nobody_there_is_a_warning_to_the_person(slack: LocalSlack) -> None:
    before, slack.commands_url = slack.commands_url, "http://127.0.0.1:9/slack"
    try:
        with pytest.raises(NotAcknowledged):
            slack.command("runs", user=USER, channel=CHANNEL)
    finally:
        slack.commands_url = before
