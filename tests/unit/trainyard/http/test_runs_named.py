"""Runs that are meant by a name, the beginning of an id, or as the newest one, over HTTP."""

from __future__ import annotations

import pytest
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World


def submit(client: Client, name: str) -> str:
    return str(client.post("/v1/runs", {**spec(), "name": name}).json["id"])


def test_a_run_is_found_by_its_name_its_beginning_and_as_the_newest(client: Client) -> None:
    first, second = submit(client, "first"), submit(client, "second")
    for given in (first, "first", first[:-1] + first[-1]):
        assert client.get(f"/v1/runs/{given}").json["id"] == first
    assert client.get("/v1/runs/latest").json["id"] == second
    for path in ("events", "checkpoints", "metrics", "logs"):
        assert client.get(f"/v1/runs/first/{path}").status == 200, path
    assert client.post("/v1/runs/first:cancel").json["id"] == first


def test_a_name_that_two_runs_have_is_refused_and_both_are_named(
    client: Client, world: World
) -> None:
    first, second = submit(client, "twin"), submit(client, "twin")
    for answer in (client.get("/v1/runs/twin"), client.post("/v1/runs/twin:cancel")):
        is_a_problem(answer, 409, "run-ambiguous")
        assert first in answer.json["detail"]
        assert second in answer.json["detail"]
        listed = [item["message"] for item in answer.json["errors"]]
        assert "'twin', Pending, submitted 2026-11-20 12:00 UTC" in listed[0]
        assert "Give the id" in answer.json["nextStep"]
    assert all(run.status == "Pending" for run in world.runs.active())


def test_a_beginning_that_two_ids_have_is_refused(client: Client) -> None:
    first, second = submit(client, "a"), submit(client, "b")
    common = first[:-1]
    assert second.startswith(common)
    is_a_problem(client.get(f"/v1/runs/{common}"), 409, "run-ambiguous")
    is_a_problem(client.get("/v1/runs/run-0"), 409, "run-ambiguous")


def test_a_name_that_begins_as_the_id_of_another_run_is_no_way_to_take_its_place(
    client: Client,
) -> None:
    first = submit(client, "honest")
    submit(client, first[:-2])
    is_a_problem(client.post(f"/v1/runs/{first[:-2]}:cancel"), 409, "run-ambiguous")
    assert client.get(f"/v1/runs/{first}").json["name"] == "honest"


def test_many_runs_of_one_name_are_not_all_listed(client: Client) -> None:
    for _ in range(15):
        submit(client, "twin")
    answer = client.get("/v1/runs/twin")
    is_a_problem(answer, 409, "run-ambiguous")
    assert "one of 10 or more runs" in answer.json["detail"]
    assert len(answer.json["errors"]) == 10


@pytest.mark.parametrize("call", ["cancel", "resume", "export"])
def test_a_change_is_never_made_to_whatever_run_is_the_newest(client: Client, call: str) -> None:
    submit(client, "a")
    answer = client.post(f"/v1/runs/latest:{call}")
    is_a_problem(answer, 400, "invalid-request")
    assert "GET /v1/runs/latest" in answer.json["nextStep"]


def test_what_no_run_is_called_is_not_found(client: Client) -> None:
    is_a_problem(client.get("/v1/runs/latest"), 404, "run-not-found")
    submit(client, "a")
    for given in ("b", "run-1", "run-01h00000000000000000000000", "no_name", "x" * 200):
        is_a_problem(client.get(f"/v1/runs/{given}"), 404, "run-not-found")
