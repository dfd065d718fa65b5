"""Webhooks over HTTP: a secret is in one answer, and only its owner changes a receiver."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.http_events import Client, Signer, is_a_problem
from tests.support.memory import World

from trainyard.app.webhooks.deliver import deliver, enqueue
from trainyard.domain.people import RolesOfPeople
from trainyard.domain.webhook_answers import Answer
from trainyard_contracts.user_events import UserEvent

BOB = Signer("arn:aws:iam::123456789012:user/bob", "AIDABOB")
SPEC = {"url": "https://example.com/x", "types": ["run.failed"], "description": "pager"}


@pytest.fixture
def added(client: Client) -> dict[str, Any]:
    made = client.post("/v1/webhooks", SPEC)
    assert made.status == 201
    found: dict[str, Any] = made.json
    return found


def failed(world: World) -> None:
    """A run failed, and each webhook was sent it."""
    at = world.clock.now() + timedelta(seconds=1)
    event = UserEvent(id="run-1/end", at=at, type="run.failed", message="no")
    world.clock.tick(2)
    enqueue(world.ports, event, world.webhooks.active())
    for webhook_id, delivery_id in list(world.webhooks.sent_to):
        deliver(world.ports, webhook_id, delivery_id, pause=world.clock.tick)


def test_only_the_first_answer_has_the_secret(
    client: Client, world: World, added: dict[str, Any]
) -> None:
    path, secret = f"/v1/webhooks/{added['id']}", added["secret"]
    assert secret.startswith("whsec_")
    assert (added["url"], added["types"], added["status"]) == (
        "https://example.com/x", ["run.failed"], "Active"
    )  # fmt: skip
    assert added["createdBy"]["name"] == "me"
    failed(world)
    answers = [client.get("/v1/webhooks"), client.get(path), client.send("DELETE", path)]
    entries = client.get("/v1/audit", query={"since": "2026-01-01T00:00:00Z"})
    for answer in (*answers, entries):
        assert answer.status == 200
        assert secret[6:] not in json.dumps(answer.json)
    assert [one["id"] for one in answers[0].json["webhooks"]] == [added["id"]]
    assert "webhook.add" in {one["what"] for one in entries.json["entries"]}
    is_a_problem(client.get(path), 404, "not-found")


def test_what_became_of_each_delivery_is_shown(
    client: Client, world: World, added: dict[str, Any]
) -> None:
    failed(world)
    (one,) = client.get(f"/v1/webhooks/{added['id']}").json["deliveries"]
    assert (one["type"], one["eventId"], one["state"]) == ("run.failed", "run-1/end", "delivered")
    assert one["nextTryAt"] is None
    assert [(each["status"], each["said"]) for each in one["tries"]] == [(200, "")]


def test_one_that_waits_for_a_disabled_webhook_is_not_tried_again(
    client: Client, world: World, added: dict[str, Any]
) -> None:
    world.receivers.answers = [Answer(500)]
    failed(world)
    path = f"/v1/webhooks/{added['id']}"
    (one,) = client.get(path).json["deliveries"]
    assert one["nextTryAt"]
    webhook = world.webhooks.get(added["id"])
    world.webhooks.put(webhook.changed(status="Disabled"))
    (one,) = client.get(path).json["deliveries"]
    assert (one["state"], one["nextTryAt"]) == ("waiting", None)


def test_the_same_key_again_is_the_same_webhook_without_its_secret(client: Client) -> None:
    headers = {"idempotency-key": "one"}
    first = client.post("/v1/webhooks", SPEC, headers=headers).json
    again = client.post("/v1/webhooks", SPEC, headers=headers).json
    assert first["secret"]
    assert (again["id"], again["secret"]) == (first["id"], None)
    other = {**SPEC, "url": "https://example.com/y"}
    refused = client.post("/v1/webhooks", other, headers=headers)
    is_a_problem(refused, 409, "idempotency-conflict")


def test_rotating_gives_a_new_secret(client: Client, added: dict[str, Any]) -> None:
    rotated = client.post(f"/v1/webhooks/{added['id']}:rotate", query={"reason": "leaked"})
    assert rotated.status == 200
    assert rotated.json["secret"].startswith("whsec_")
    assert rotated.json["secret"] != added["secret"]
    assert rotated.json["rotatedAt"]


def test_a_delivery_is_sent_again(client: Client, world: World, added: dict[str, Any]) -> None:
    failed(world)
    path = f"/v1/webhooks/{added['id']}"
    (one,) = client.get(path).json["deliveries"]
    again = client.post(f"{path}:redeliver", query={"delivery": one["id"]})
    assert (again.status, again.json["state"]) == (202, "waiting")
    missing = client.post(f"{path}:redeliver", query={"delivery": "msg-none"})
    is_a_problem(missing, 404, "not-found")
    is_a_problem(client.post(f"{path}:redeliver"), 400, "invalid-request")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "http://example.com/"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": "https://localhost/"}, "url"),
        ({"types": ["run.exploded"]}, "types.0"),
        ({"labels": {"team": 1}}, "labels.team"),
        ({"secret": "whsec_mine"}, "secret"),
    ],
)
def test_a_mistake_names_its_field(client: Client, change: dict[str, Any], field: str) -> None:
    refused = client.post("/v1/webhooks", {**SPEC, **change})
    is_a_problem(refused, 400, "invalid-request")
    assert [one["field"] for one in refused.json["errors"]] == [field]


def test_another_member_changes_nothing_of_it(
    client: Client, world: World, added: dict[str, Any]
) -> None:
    config = replace(world.ports.config, roles=RolesOfPeople(admins=[]))
    world.ports = replace(world.ports, config=config)
    path, by_bob = f"/v1/webhooks/{added['id']}", client.of(BOB)
    for refused in (
        by_bob.post(f"{path}:rotate"),
        by_bob.post(f"{path}:redeliver", query={"delivery": "msg-1"}),
        by_bob.send("DELETE", path),
    ):
        is_a_problem(refused, 403, "not-allowed")
        assert "belongs to me" in refused.json["detail"]
    assert by_bob.get(path).status == 200
    viewers = RolesOfPeople(admins=[], members=[])
    world.ports = replace(world.ports, config=replace(config, roles=viewers))
    is_a_problem(client.post("/v1/webhooks", SPEC), 403, "not-allowed")


@pytest.mark.parametrize("name", ["wh-1", "nothing", "wh-" + "A" * 26])
def test_what_cannot_be_an_id_is_not_found(client: Client, name: str) -> None:
    is_a_problem(client.get(f"/v1/webhooks/{name}"), 404, "not-found")
    is_a_problem(client.get(f"/v1/webhooks/{name}:rotate"), 405, "method-not-allowed")
