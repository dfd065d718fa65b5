"""A team's runs, kept in DynamoDB (on moto): labelled, found again, and changed by two at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World
from tests.support.store_table import mocked_dynamodb, new_table

from trainyard.aws.clusters import TableClusters
from trainyard.aws.runs import TableRuns
from trainyard.http.api import Api


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mocked_dynamodb() as found:
        yield found


class Team:
    """The API over tables."""

    def __init__(self, dynamodb: Any, world: World) -> None:
        table = new_table(dynamodb)
        self.world = world
        self.runs = TableRuns(table, world.clock)
        self.clusters = TableClusters(table, world.clock)
        ports = replace(world.ports, runs=self.runs, clusters=self.clusters)
        self.client = Client(Api(lambda: ports))

    def submit(self, name: str, **labels: str) -> str:
        self.world.clock.tick(3600)
        answer = self.client.post("/v1/runs", {**spec(), "name": name, "labels": labels})
        assert answer.status == 202, answer.text
        return str(answer.json["id"])

    def ends(self, run_id: str, status: str) -> None:
        self.runs.put(self.runs.get(run_id).model_copy(update={"status": status}))

    def found(self, **query: Any) -> list[str]:
        """Of all pages, two runs each."""
        ids: list[str] = []
        token: dict[str, str] = {}
        while True:
            answer = self.client.get("/v1/runs", query={"limit": 2, **query, **token})
            assert answer.status == 200, answer.text
            ids += [run["id"] for run in answer.json["runs"]]
            if not answer.json["nextToken"]:
                return ids
            token = {"nextToken": answer.json["nextToken"]}


@pytest.fixture
def team(dynamodb: Any, world: World) -> Team:
    return Team(dynamodb, world)


def test_a_week_of_experiments_is_found_by_what_each_was(team: Team) -> None:
    runs = [team.submit(f"sweep-{number % 2}", exp=str(number % 3)) for number in range(9)]
    for run in runs[::2]:
        team.ends(run, "Failed")
    assert team.found() == runs[::-1]
    assert team.found(label="exp=0", status="failed") == [runs[6], runs[0]]
    assert team.found(name="sweep-1", order="oldest") == runs[1::2]
    assert team.found(since="2026-11-20T20:00:00Z", label="exp") == [runs[8], runs[7]]
    assert team.found(mine="true") == runs[::-1]
    assert team.found(createdBy="me", status="failed", label="exp=2") == [runs[8], runs[2]]
    assert team.found(createdBy="somebody") == []


def test_a_label_that_is_changed_is_found_as_it_is_now(team: Team) -> None:
    first, second = team.submit("a", exp="1"), team.submit("b", exp="1")
    change = {"labels": {"exp": "2", "best": ""}}
    assert team.client.send("PATCH", f"/v1/runs/{first}", body=change).status == 200
    assert team.found(label="exp=1") == [second]
    assert team.found(label="best") == [first]
    audit = [entry.what for entry in team.world.audit.entries.values()]
    assert "run.label" in audit


def test_a_label_of_a_state_that_is_over_is_refused_and_nothing_is_lost(team: Team) -> None:
    run = team.submit("a", exp="1")
    seen = team.client.get(f"/v1/runs/{run}").headers["ETag"]
    team.ends(run, "Succeeded")
    body = {"labels": {"exp": "2"}}
    answer = team.client.send("PATCH", f"/v1/runs/{run}", body=body, headers={"If-Match": seen})
    is_a_problem(answer, 412, "precondition-failed")
    assert team.runs.get(run).labels == {"exp": "1"}
    now = team.client.get(f"/v1/runs/{run}").headers["ETag"]
    answer = team.client.send("PATCH", f"/v1/runs/{run}", body=body, headers={"If-Match": now})
    assert (answer.status, answer.json["status"]) == (200, "Succeeded")


def test_a_run_is_meant_by_its_name_until_another_one_has_it(team: Team) -> None:
    first = team.submit("nightly")
    assert team.client.get("/v1/runs/nightly").json["id"] == first
    assert team.client.get("/v1/runs/latest").json["id"] == first
    second = team.submit("nightly")
    assert team.client.get("/v1/runs/latest").json["id"] == second
    answer = team.client.post("/v1/runs/nightly:cancel")
    is_a_problem(answer, 409, "run-ambiguous")
    assert [item["message"].split(":")[0] for item in answer.json["errors"]] == [
        f"may be {second}",
        f"may be {first}",
    ]
    assert team.client.post(f"/v1/runs/{first}:cancel").status == 202


def test_a_cluster_is_labelled_while_a_state_machine_changes_it(team: Team) -> None:
    team.client.post("/v1/clusters", {**spec()["cluster"]["spec"], "labels": {"team": "a"}})
    team.clusters.put(team.clusters.get("demo").changed(status="Ready"))
    body = {"labels": {"team": None, "purpose": "tests"}}
    assert team.client.send("PATCH", "/v1/clusters/demo", body=body).status == 200
    team.clusters.put(team.clusters.get("demo").changed(status="Stopped"))
    query = {"label": "purpose=tests", "status": "stopped"}
    [found] = team.client.get("/v1/clusters", query=query).json["clusters"]
    assert found["name"] == "demo"
