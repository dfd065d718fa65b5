"""Webhooks, as the command adds, shows, rotates, sends again and removes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_api import FakeApi, T

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
ID = "wh-01hq3v9k2m8x7w6e5r4t3y2z1a"
PATH = f"/v1/webhooks/{ID}"
MESSAGE = "msg-20261128090000-00112233445566778899"


def webhook(**fields: Any) -> dict[str, Any]:
    arn = "arn:aws:iam::111122223333:user/alice"
    return {
        "id": ID,
        "url": "https://example.com/x?[a]",
        "types": ["run.failed"],
        "labels": {"team": "vision"},
        "description": "the [pager]",
        "status": "Active",
        "disabledBecause": "",
        "failingSince": None,
        "heldUntil": None,
        "rotatedAt": None,
        "createdAt": T,
        "createdBy": {"id": "", "arn": arn, "account": "1", "name": "alice[b]", "kind": "user"},
        "updatedAt": T,
        **fields,
    }


def delivery(**fields: Any) -> dict[str, Any]:
    tried = {"at": T, "status": None, "said": "its [certificate] is not valid"}
    return {
        "id": MESSAGE,
        "type": "run.failed",
        "eventId": "run-1/end",
        "state": "waiting",
        "nextTryAt": T,
        "tries": [tried],
        "createdAt": T,
        **fields,
    }


def test_one_is_added_and_its_secret_is_shown_once(api: FakeApi, trainyard: Command) -> None:
    api.answers["POST /v1/webhooks"] = (201, webhook(secret="whsec_abc+/="))
    code, out, _ = trainyard(
        "webhook", "add", "https://example.com/x", "--type", "run.failed", "--label", "team=vision"
    )
    assert code == 0
    assert "secret: whsec_abc+/=" in out
    assert "Nothing shows it again." in out
    assert json.loads(trainyard("webhook", "add", "https://x.example/", "--json")[1])["secret"]
    api.answers["POST /v1/webhooks"] = (201, webhook(secret=None))
    assert f"webhook rotate {ID}" in trainyard("webhook", "add", "https://example.com/x")[1]


def test_a_label_without_a_value_is_refused(api: FakeApi, trainyard: Command) -> None:
    code, _, err = trainyard("webhook", "add", "https://example.com/x", "--label", "team")
    assert code == 2
    assert "KEY=VALUE" in err


def test_they_are_listed(api: FakeApi, trainyard: Command) -> None:
    found = {"webhooks": [webhook(), webhook(types=[], createdBy=None)], "nextToken": None}
    api.answers["GET /v1/webhooks"] = (200, found)
    code, out, _ = trainyard("webhook", "ls")
    assert code == 0
    assert "alice[b]" in out
    assert "all" in out
    assert json.loads(trainyard("webhook", "ls", "--json")[1]) == {"webhooks": found["webhooks"]}
    api.answers["GET /v1/webhooks"] = (200, {"webhooks": [], "nextToken": None})
    assert "There is no webhook." in trainyard("webhook", "ls")[1]


def test_one_is_shown_with_its_deliveries(api: FakeApi, trainyard: Command) -> None:
    over = delivery(state="delivered", nextTryAt=None, tries=[])
    shown = webhook(
        deliveries=[delivery(), over], status="Disabled", disabledBecause="it answered 410"
    )
    api.answers[f"GET {PATH}"] = (200, shown)
    code, out, _ = trainyard("webhook", "show", ID)
    assert code == 0
    assert "it answered 410" in out
    assert "https://example.com/x?[a]" in out
    assert "the [pager]" in out
    assert "team=vision" in out
    assert "[certificate]" in out
    assert json.loads(trainyard("webhook", "show", ID, "--json")[1]) == shown


def test_one_is_rotated_sent_again_and_removed(api: FakeApi, trainyard: Command) -> None:
    api.answers[f"POST {PATH}:rotate"] = (200, webhook(secret="whsec_new"))
    api.answers[f"POST {PATH}:redeliver"] = (202, delivery())
    api.answers[f"DELETE {PATH}"] = (200, webhook(status="Deleted"))
    assert "secret: whsec_new" in trainyard("webhook", "rotate", ID, "--reason", "it leaked")[1]
    again = trainyard("webhook", "redeliver", ID, MESSAGE)[1]
    assert f"{MESSAGE} is sent within a minute" in again
    assert "sent nothing more" in trainyard("webhook", "rm", ID)[1]
    assert json.loads(trainyard("webhook", "redeliver", ID, MESSAGE, "--json")[1]) == delivery()
    assert json.loads(trainyard("webhook", "rm", ID, "--json")[1])["status"] == "Deleted"
