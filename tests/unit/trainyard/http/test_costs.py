"""What runs and clusters cost, as the API answers it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.http_events import Client, changed, is_a_problem, spec
from tests.support.memory import World

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.runs.tell_price import note_price
from trainyard.domain.records import CostLine, Run, RunCost
from trainyard_contracts.cluster_specs import read_cluster_spec


def submitted(client: Client, world: World, **fields: object) -> Run:
    """With a cluster of its own that was asked for an hour ago."""
    run = world.runs.get(client.post("/v1/runs", {**spec(), **fields}).json["id"])
    given = run.spec.cluster.spec
    assert given is not None
    made = create_cluster(world.ports, given, name=run.cluster_name, owner_run=run.id)
    note_price(world.ports, made)
    world.clock.tick(3600)
    return run


def test_a_run_s_cost_so_far_has_its_price_and_its_ledger(client: Client, world: World) -> None:
    run = submitted(client, world)
    found = client.get(f"/v1/runs/{run.id}/cost").json
    hourly = found["prices"][0]["hourlyUsd"]
    assert found["usd"] == pytest.approx(hourly, rel=0.01)
    assert (found["final"], found["reason"], found["budget"]) == (False, "", None)
    assert found["prices"][0]["source"] == "list"
    assert not found["prices"][0]["ended"]
    assert [line["cause"] for line in found["ledger"]] == ["creation"]
    assert sum(line["usd"] for line in found["ledger"]) == pytest.approx(found["usd"])
    assert client.get(f"/v1/runs/{run.id}").json["costUsd"] is None


def test_a_budget_says_when_the_run_will_be_stopped(client: Client, world: World) -> None:
    run = submitted(client, world, budget={"maxUsd": 100, "tailSeconds": 600})
    found = client.get(f"/v1/runs/{run.id}/cost").json["budget"]
    assert found["maxUsd"] == 100
    assert found["spentUsd"] > 0
    assert found["heldBackUsd"] > 0
    assert found["stopsAt"] > world.clock.now().isoformat()[:19]


def test_a_budget_that_is_too_small_is_a_400_with_the_field(client: Client) -> None:
    answer = client.post("/v1/runs", changed("budget", {"maxUsd": 0.01}))
    is_a_problem(answer, 400, "invalid-request")
    assert answer.json["errors"][0]["field"] == "budget.maxUsd"
    dry = client.post("/v1/runs", changed("budget", {"maxUsd": 0.01}), query={"dryrun": "true"})
    is_a_problem(dry, 400, "invalid-request")


def test_the_cost_of_an_ended_run_is_in_its_view_and_in_the_list(
    client: Client, world: World
) -> None:
    run = submitted(client, world)
    line = CostLine(cause="useful", seconds=60, node_seconds=120, usd=1.5)
    cost = RunCost(usd=2.5, at=world.clock.now(), node_seconds=200, ledger=[line])
    world.runs.put(
        world.runs.get(run.id).changed(
            status="Succeeded", finished_at=world.clock.now(), cost=cost, labels={"team": "a"}
        )
    )
    assert client.get(f"/v1/runs/{run.id}").json["costUsd"] == 2.5
    assert client.get("/v1/runs").json["runs"][0]["costUsd"] == 2.5
    for by, key in (("label:team", "a"), ("run", run.id), ("cluster", run.cluster_name)):
        found = client.get("/v1/costs", query={"by": by}).json["totals"]
        assert [(one["key"], one["usd"], one["usefulUsd"]) for one in found] == [(key, 2.5, 1.5)]
    later = (world.clock.now() + timedelta(days=1)).isoformat()[:19] + "Z"
    assert client.get("/v1/costs", query={"since": later}).json["totals"] == []


def test_what_nothing_adds_up_by_is_refused(client: Client) -> None:
    for by in ("colour", "label:", "label", "owner:x"):
        answer = client.get("/v1/costs", query={"by": by})
        is_a_problem(answer, 400, "invalid-request")
        assert answer.json["errors"][0]["field"] == "by"


def test_a_cluster_s_cost_is_divided(client: Client, world: World) -> None:
    given = spec()["cluster"]["spec"]
    cluster = create_cluster(world.ports, read_cluster_spec({**given, "name": "shared"}))
    note_price(world.ports, cluster)
    world.clock.tick(3600)
    found = client.get("/v1/clusters/shared/cost").json
    assert found["usd"] == pytest.approx(found["idleUsd"])
    assert found["usd"] > 0
    assert found["runs"] == []


def test_the_cost_of_what_is_unknown_is_a_404(client: Client) -> None:
    assert client.get("/v1/clusters/none/cost").status == 404
    assert client.get("/v1/runs/run-01ARZ3NDEKTSV4RRFFQ69G5FAV/cost").status == 404
