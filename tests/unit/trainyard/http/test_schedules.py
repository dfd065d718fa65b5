"""Schedules over HTTP."""

from __future__ import annotations

from typing import Any

from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World


def document(**extra: Any) -> dict[str, Any]:
    return {"name": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin", "run": spec(),
            **extra}  # fmt: skip


FROM_TRAIN = {"source": "run:train/outputs/final", "path": "model"}


def of(name: str, **extra: Any) -> dict[str, Any]:
    return {**spec(), "name": name, **extra}


def chained(*runs: dict[str, Any]) -> dict[str, Any]:
    return {name: given for name, given in document(runs=list(runs)).items() if name != "run"}


def test_a_schedule_of_a_chain_keeps_it_by_the_names_of_its_runs(client: Client) -> None:
    body = chained(of("train"), of("test", after=["train"], inputs=[FROM_TRAIN]))
    assert client.post("/v1/schedules", body).status == 201
    kept = client.get("/v1/schedules/nightly").json["spec"]
    assert kept["run"] is None
    assert [one["after"] for one in kept["runs"]] == [[], ["train"]]
    assert kept["runs"][1]["inputs"][0]["source"] == FROM_TRAIN["source"]


def test_a_run_outside_of_a_chain_names_others_by_their_ids(client: Client) -> None:
    answer = client.post("/v1/runs", of("test", inputs=[FROM_TRAIN]))
    is_a_problem(answer, 400, "invalid-request")
    assert "reads what train exports; name that run in 'after', too" in str(answer.json)


def test_a_created_schedule_says_when_it_is_due(client: Client, world: World) -> None:
    answer = client.post("/v1/schedules", document())
    assert answer.status == 201
    assert answer.headers["Location"] == "/v1/schedules/nightly"
    assert len(answer.json["nextTimes"]) == 5
    assert answer.json["nextAt"] == answer.json["nextTimes"][0]
    assert not {"version", "placed", "since", "bodyHash"} & set(answer.json)
    assert world.scheduler.there["nightly"].spec.expression == "cron(0 2 * * ? *)"
    assert client.get("/v1/schedules/nightly").json["spec"]["cron"] == "0 2 * * *"


def test_schedules_are_listed_without_their_runs_specs(client: Client) -> None:
    client.post("/v1/schedules", document())
    (listed,) = client.get("/v1/schedules").json["schedules"]
    assert (listed["name"], listed["status"], listed["last"]) == ("nightly", "Active", None)
    assert "spec" not in listed


def test_a_schedule_is_paused_resumed_and_deleted(client: Client, world: World) -> None:
    client.post("/v1/schedules", document())
    paused = client.post("/v1/schedules/nightly:pause").json
    assert (paused["status"], paused["nextAt"]) == ("Paused", None)
    assert client.post("/v1/schedules/nightly:resume").json["status"] == "Active"
    assert client.send("DELETE", "/v1/schedules/nightly").json["status"] == "Deleted"
    assert world.scheduler.there == {}
    is_a_problem(client.get("/v1/schedules/nightly"), 404, "not-found")
    is_a_problem(client.post("/v1/schedules/nightly:pause"), 404, "not-found")
    assert client.get("/v1/schedules").json["schedules"] == []


def test_what_a_schedule_gets_wrong_is_named(client: Client) -> None:
    wrong = {
        "hour: '25' must be a number from 0 to 23": document(cron="0 25 * * *"),
        "there is no time zone 'Europe/Atlantis'": document(timezone="Europe/Atlantis"),
        "give one of 'cron'": document(rate="6 hours"),
        "must be such as '30 minutes'": document(cron=None, timezone="UTC", rate="often"),
        "a rate has none": document(cron=None, rate="6 hours"),
        "a schedule's run follows no others": document(
            run={**spec(), "after": ["run-" + "0" * 26]}
        ),
        "give one of 'run' (one run) and 'runs'": document(runs=[spec()]),
        "runs.1.name: 'train' is the name of two": chained(of("train"), of("train")),
        "runs.0.after: 'train' is no run above this one (none)": chained(
            of("test", after=["train"]), of("train")
        ),
        "name that run in 'after', too": chained(of("train"), of("test", inputs=[FROM_TRAIN])),
        "run 'train' exports nothing": chained(
            of("train", export={"enabled": False}),
            of("test", after=["train"], inputs=[FROM_TRAIN]),
        ),
    }
    for words, body in wrong.items():
        answer = client.post("/v1/schedules", body)
        is_a_problem(answer, 400, "invalid-request")
        assert words in str(answer.json), answer.json


def test_another_schedule_of_the_name_is_refused(client: Client) -> None:
    client.post("/v1/schedules", document())
    assert client.post("/v1/schedules", document()).status == 201
    is_a_problem(client.post("/v1/schedules", document(overlap="queue")), 409, "conflict")
