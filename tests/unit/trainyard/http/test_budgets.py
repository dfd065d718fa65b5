"""Budgets that runs share, over HTTP: admins set them, and all who read see what is left."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.http_events import Client, Signer, is_a_problem, spec
from tests.support.memory import World

from trainyard.app.sweep.team_budgets import team_budget_step
from trainyard.app.sweep.watched_budgets import watched_budgets
from trainyard.domain.people import RolesOfPeople
from trainyard.domain.team_budget_records import TeamAccount

BOB = Signer("arn:aws:iam::123456789012:user/bob", "AIDABOB")
PATH = "/v1/budgets/vision"
SPEC = {"label": "team=vision", "maxUsd": 100.0}


def test_a_budget_is_set_shown_listed_and_removed(client: Client, world: World) -> None:
    made = client.send("PUT", PATH, body=SPEC)
    assert made.status == 200
    assert (made.json["label"], made.json["cluster"], made.json["per"]) == (
        "team=vision", None, "month"
    )  # fmt: skip
    assert (made.json["warnAt"], made.json["tailSeconds"]) == ([0.5, 0.8, 0.95], 1200)
    assert (made.json["at"], made.json["spentUsd"], made.json["status"]) == (None, 0, "active")
    assert client.send("PUT", PATH, body=SPEC).json == made.json
    (watched,) = watched_budgets(world.ports)
    list(team_budget_step(world.ports, watched))
    assert client.get(PATH).json["at"] is not None
    assert [one["name"] for one in client.get("/v1/budgets").json["budgets"]] == ["vision"]
    assert client.send("DELETE", PATH).json["status"] == "deleted"
    is_a_problem(client.get(PATH), 404, "not-found")
    assert client.get("/v1/budgets").json["budgets"] == []
    entries = client.get("/v1/audit", query={"since": "2026-01-01T00:00:00Z"}).json["entries"]
    assert {"budget.set", "budget.remove"} <= {one["what"] for one in entries}


def test_what_is_spent_and_what_comes_is_shown(client: Client, world: World) -> None:
    client.send("PUT", PATH, body=SPEC)
    stored = world.team_budgets.get("vision")
    now = world.clock.now()
    account = TeamAccount(
        period=f"{now:%Y-%m}", at=now, settled_usd=40.0, hourly_usd=6.0, tail_usd=2.0
    )
    world.team_budgets.put(stored.changed(account=account))
    shown = client.get(PATH).json
    assert (shown["spentUsd"], shown["heldBackUsd"], shown["hourlyUsd"]) == (40, 2, 6)
    assert shown["forecastUsd"] > 40
    stops = now + timedelta(hours=58 / 6)
    assert shown["stopsAt"][:16] == f"{stops:%Y-%m-%dT%H:%M}"
    up = account.changed(spent_at_max=100.0)
    world.team_budgets.put(world.team_budgets.get("vision").changed(account=up))
    shown = client.get(PATH).json
    assert (shown["status"], shown["stopsAt"]) == ("used-up", None)
    body = {**spec(), "labels": {"team": "vision"}}
    refused = client.post("/v1/runs", body)
    is_a_problem(refused, 409, "budget-used-up")
    assert "trainyard budget set vision" in refused.json["nextStep"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"maxUsd": 1.0}, "needs one of label, such as team=vision, and cluster"),
        ({"label": "team", "maxUsd": 1.0}, "'team' must be KEY=VALUE"),
        ({"label": "team=x", "maxUsd": 0}, "maxUsd"),
        ({"label": "team=x", "maxUsd": 1.0, "per": "week"}, "per"),
        ({"cluster": "nobody", "maxUsd": 1.0}, "no cluster is named 'nobody'"),
    ],
)
def test_what_could_not_be_kept_is_refused_by_its_field(
    client: Client, body: dict[str, object], words: str
) -> None:
    answer = client.send("PUT", PATH, body=body)
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.text


def test_admins_alone_change_it_and_all_who_read_see_it(client: Client, world: World) -> None:
    client.send("PUT", PATH, body=SPEC)
    roles = RolesOfPeople(admins=("arn:aws:iam::123456789012:user/me",))
    world.ports = replace(world.ports, config=replace(world.ports.config, roles=roles))
    bob = client.of(BOB)
    assert bob.get(PATH).status == 200
    for answer in (bob.send("PUT", PATH, body=SPEC), bob.send("DELETE", PATH)):
        is_a_problem(answer, 403, "not-allowed")
        assert "admins do" in answer.json["detail"]


def test_a_name_that_cannot_be_is_not_found(client: Client) -> None:
    is_a_problem(client.get("/v1/budgets/a_b"), 404, "not-found")
    is_a_problem(client.get("/v1/budgets/a:b"), 405, "method-not-allowed")
