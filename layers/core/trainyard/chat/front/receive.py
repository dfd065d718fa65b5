"""Takes a request of Slack: verified, put on the bus for the worker, and acknowledged at once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, Protocol
from urllib.parse import parse_qsl

from trainyard.chat.front.aws_call import AwsCalls, CallFailed
from trainyard.chat.front.mistakes import mistakes
from trainyard.chat.front.signature import holds, stale

_LOG = logging.getLogger(__name__)
#: Its rule calls the worker; the role of nodes may send events of `trainyard.agent` alone.
SOURCE, TYPED, CLICKED = "trainyard.slack", "SlackCommand", "SlackClick"
SENT, OPENED = "SlackForm", "SlackHome"
#: A secret that was read is believed so long; one that does not fit is read again after a while.
KEPT_SECONDS, DOUBTED_SECONDS = 300.0, 10.0
#: A command that is longer is cut, and then not understood.
MOST_TEXT = 2000
#: What a command of Slack's always has.
REQUIRED = ("team_id", "user_id", "command", "response_url")
#: What a form's fields hold in all; an event has 256 KB.
MOST_FORM = 20_000
#: A challenge of Slack's that is longer is none.
MOST_CHALLENGE = 500
#: How the ids of our buttons and forms begin.
OURS = "trainyard."
NOT_QUEUED = "Trainyard could not take the command in just now. Please type it once more."


class Calls(Protocol):
    """Signed calls of AWS."""

    def call(
        self, service: str, target: str, request: Mapping[str, Any], now: datetime
    ) -> dict[str, Any]:
        """Raises CallFailed."""
        ...


class Front:
    """What the function keeps between two requests: the signing secret, for some minutes."""

    def __init__(
        self, secret_arn: str, bus: str, calls: Calls, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._secret_arn, self._bus, self._calls, self._clock = secret_arn, bus, calls, clock
        self._secret, self._read_at = "", 0.0

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Front:
        """Raises KeyError with the name of a variable that template.yaml sets."""
        return cls(
            environ["SLACK_SIGNING_SECRET"], environ["EVENT_BUS_NAME"], AwsCalls(dict(environ))
        )

    def handle(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Answer an event of API Gateway (payload 2.0). It raises for no request."""
        headers = {str(k).lower(): str(v) for k, v in (event.get("headers") or {}).items()}
        body = raw_body(event)
        try:
            refusal = self._refusal(headers, body)
        except CallFailed as failed:
            _LOG.error("the signing secret cannot be read: %s", failed)
            return _answer(503, "The signing secret cannot be read.")
        if refusal:
            return _answer(401, refusal)
        if headers.get("content-type", "").startswith("application/json"):
            return self._take_event(body)
        form = dict(parse_qsl(body.decode(errors="replace")))
        if "payload" in form:
            return self._take_click(form["payload"], body)
        return self._take(form, body)

    def _take_event(self, body: bytes) -> dict[str, Any]:
        """Anything but a home that is opened is acknowledged, and nothing follows."""
        try:
            given = json.loads(body)
            if given["type"] == "url_verification":
                return _answer(200, str(given["challenge"])[:MOST_CHALLENGE])
            detail = self._home(given, body) if given["type"] == "event_callback" else None
        except (ValueError, LookupError, TypeError, AttributeError):
            return _answer(400, "The body must be JSON as Slack sends events.")
        return self._pass_on(OPENED, detail)

    def _home(self, given: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """Raises what an event of another form leads to."""
        event = given["event"]
        if event["type"] != "app_home_opened" or event.get("tab") != "home":
            return None
        return {
            **self._once(str(given["event_id"]), body),
            "at": int(given["event_time"]),
            "team": str(given["team_id"]),
            "user": str(event["user"]),
        }

    def _take_click(self, payload: str, body: bytes) -> dict[str, Any]:
        """Anything but a button or a form of ours is acknowledged, and nothing follows."""
        try:
            given = json.loads(payload)
            kind = SENT if given["type"] == "view_submission" else CLICKED
            detail = self._form(given, body) if kind == SENT else self._click(given, body)
        except (ValueError, LookupError, TypeError, AttributeError):
            return _answer(400, "The field payload must be JSON as Slack sends interactions.")
        if kind == SENT and detail is not None:
            wrong = mistakes(detail["form"], json.loads(detail["values"]))
            if wrong:
                return _said({"response_action": "errors", "errors": wrong})
        return self._pass_on(kind, detail)

    def _pass_on(self, kind: str, detail: dict[str, Any] | None) -> dict[str, Any]:
        """Of what is not queued Slack marks the button, or sends the event once more."""
        if detail is None:
            return _answer(200)
        try:
            self._queue(kind, detail)
        except CallFailed as failed:
            _LOG.error("%s is not queued: %s", kind, failed)
            return _answer(503, NOT_QUEUED)
        return _answer(200)

    def _click(self, payload: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """Raises what a payload of another form leads to."""
        if payload["type"] != "block_actions":
            return None
        action = payload["actions"][0]
        if not str(action["action_id"]).startswith(OURS):
            return None
        return {
            **self._once(str(payload.get("trigger_id") or ""), body),
            "team": str(payload["team"]["id"]),
            "user": str(payload["user"]["id"]),
            "action": str(action["action_id"]),
            "value": str(action["value"])[:MOST_TEXT],
            "trigger": str(payload.get("trigger_id") or "")[:MOST_TEXT],
            **_place(payload),
        }

    def _form(self, payload: dict[str, Any], body: bytes) -> dict[str, Any] | None:
        """An empty answer closes the form. Raises what a payload of another form leads to."""
        view = payload["view"]
        if not str(view["callback_id"]).startswith(OURS):
            return None
        fields = view["state"]["values"].values()
        held = {name: one.get("value") or "" for field in fields for name, one in field.items()}
        values = json.dumps(held)
        if len(values) > MOST_FORM:
            raise ValueError("it holds too much")
        return {
            **self._once(str(payload.get("trigger_id") or ""), body),
            "team": str(payload["team"]["id"]),
            "user": str(payload["user"]["id"]),
            "form": str(view["callback_id"]),
            "about": str(view["private_metadata"]),
            "values": values,
        }

    def _take(self, form: Mapping[str, str], body: bytes) -> dict[str, Any]:
        if form.get("ssl_check") == "1":  # Slack looks at our certificate
            return _answer(200)
        missing = [name for name in REQUIRED if not form.get(name)]
        if missing:
            return _answer(400, f"A command needs the fields {', '.join(missing)}.")
        try:
            self._queue(TYPED, self._detail(form, body))
        except CallFailed as failed:
            _LOG.error("a command is not queued: %s", failed)
            return _said({"response_type": "ephemeral", "text": NOT_QUEUED})
        return _answer(200)

    def _refusal(self, headers: Mapping[str, str], body: bytes) -> str:
        now = self._clock()
        if why := stale(headers, now):
            return why
        if holds(self._known(KEPT_SECONDS), headers, body):
            return ""
        if holds(self._known(DOUBTED_SECONDS), headers, body):  # it may be a new secret by now
            return ""
        return "X-Slack-Signature must be that of the signing secret over the raw body"

    def _known(self, seconds: float) -> str:
        """The signing secret, read again if it was read longer ago. Raises CallFailed."""
        if not self._secret or self._clock() - self._read_at >= seconds:
            request = {"SecretId": self._secret_arn}
            found = self._call("secretsmanager", "secretsmanager.GetSecretValue", request)
            self._secret, self._read_at = str(found.get("SecretString", "")).strip(), self._clock()
        return self._secret

    def _detail(self, form: Mapping[str, str], body: bytes) -> dict[str, Any]:
        return {
            **self._once(form.get("trigger_id", ""), body),
            "team": form["team_id"],
            "user": form["user_id"],
            "command": form["command"][:100],
            "text": form.get("text", "")[:MOST_TEXT],
            "trigger": form.get("trigger_id", "")[:MOST_TEXT],
            "responseUrl": form["response_url"],
        }

    def _once(self, trigger: str, body: bytes) -> dict[str, Any]:
        """`id` is the same for a request that Slack, or somebody else, sends again."""
        made_of = trigger.encode(errors="replace") or body
        return {"id": hashlib.sha256(made_of).hexdigest(), "at": int(self._clock())}

    def _queue(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Raises CallFailed."""
        entry = {
            "EventBusName": self._bus,
            "Source": SOURCE,
            "DetailType": kind,
            "Detail": json.dumps(detail),
        }
        answer = self._call("events", "AWSEvents.PutEvents", {"Entries": [entry]})
        if answer.get("FailedEntryCount") != 0:
            raise CallFailed(f"AWSEvents.PutEvents: {str(answer.get('Entries'))[:300]}")

    def _call(self, service: str, target: str, request: Mapping[str, Any]) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock(), timezone.utc)
        return self._calls.call(service, target, request, now)


def raw_body(event: Mapping[str, Any]) -> bytes:
    """The bytes that were signed; never re-written."""
    body = str(event.get("body") or "")
    if not event.get("isBase64Encoded"):
        return body.encode(errors="replace")
    try:
        return base64.b64decode(body)
    except binascii.Error:
        return b""


def _answer(status: int, message: str = "") -> dict[str, Any]:
    headers = {"content-type": "text/plain; charset=utf-8"}
    return {"statusCode": status, "headers": headers, "body": message}


def _said(content: Mapping[str, Any]) -> dict[str, Any]:
    """An answer that only the person who typed sees."""
    headers = {"content-type": "application/json"}
    return {"statusCode": 200, "headers": headers, "body": json.dumps(content)}


def _place(payload: Mapping[str, Any]) -> dict[str, str]:
    """Where the answer to a click goes: a home has no response_url."""
    view = payload.get("view")
    if isinstance(view, dict) and view["type"] == "home":
        return {"place": "home"}
    return {"responseUrl": str(payload["response_url"])}
