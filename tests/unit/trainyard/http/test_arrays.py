"""Arrays of runs over HTTP."""

from __future__ import annotations

from typing import Any

from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World


def array_document(**extra: Any) -> dict[str, Any]:
    run = spec()
    run["job"]["arguments"] = ["--lr", "{lr}"]
    return {"run": run, "matrix": {"lr": [0.1, 0.01, "1e-4"]}, **extra}


def test_a_submitted_array_is_accepted_and_counts_its_members(client: Client) -> None:
    answer = client.post("/v1/arrays", array_document(maxParallel=2))
    assert answer.status == 202
    assert answer.headers["Location"] == f"/v1/arrays/{answer.json['id']}"
    counts = {name: answer.json[name] for name in ("total", "active", "notBegun", "succeeded")}
    assert counts == {"total": 3, "active": 2, "notBegun": 1, "succeeded": 0}
    listed = client.get("/v1/arrays").json["arrays"]
    assert [one["id"] for one in listed] == [answer.json["id"]]
    assert "spec" not in listed[0]


def test_members_have_their_parameters_and_their_runs_page_by_page(client: Client) -> None:
    array = client.post("/v1/arrays", array_document(maxParallel=2)).json["id"]
    first = client.get(f"/v1/arrays/{array}/members", query={"limit": "2"}).json
    assert [one["parameters"] for one in first["members"]] == [{"lr": "0.1"}, {"lr": "0.01"}]
    run = client.get(f"/v1/runs/{first['members'][0]['runId']}").json
    assert run["spec"]["job"]["arguments"] == ["--lr", "0.1"]
    assert run["array"] == {"id": array, "index": 0}
    rest = client.get(
        f"/v1/arrays/{array}/members", query={"limit": "2", "nextToken": first["nextToken"]}
    ).json
    assert [(one["index"], one["runId"]) for one in rest["members"]] == [(2, None)]
    assert rest["nextToken"] is None


def test_a_cancelled_array_begins_no_other_member(client: Client, world: World) -> None:
    array = client.post("/v1/arrays", array_document(maxParallel=1)).json["id"]
    assert client.post(f"/v1/arrays/{array}:cancel").json["status"] == "Cancelling"
    assert len(world.runs.stored) == 1


def test_what_an_array_gets_wrong_is_named(client: Client) -> None:
    wrong = {
        "parameter 'unused' is used nowhere": array_document(matrix={"lr": [1], "unused": [1]}),
        "give one of 'parameters'": array_document(parameters=[{"lr": 1}]),
        "names rate, and the first entry names lr": {
            **array_document(),
            "matrix": {},
            "parameters": [{"lr": 1}, {"rate": 1}],
        },
        "at most 1000": array_document(matrix={"lr": list(range(1001))}),
    }
    for words, document in wrong.items():
        answer = client.post("/v1/arrays", document)
        is_a_problem(answer, 400, "invalid-request")
        assert words in str(answer.json), answer.json


def test_a_placeholder_that_no_parameter_fills_is_refused_by_its_field(client: Client) -> None:
    document = array_document()
    document["run"]["job"]["arguments"] = ["--lr", "{lr}", "--out={step}"]
    answer = client.post("/v1/arrays", document)
    is_a_problem(answer, 400, "invalid-request")
    assert "run.job.arguments.2: there is no parameter 'step'" in str(answer.json)
    document["run"]["job"]["arguments"][2] = "--out={{step}}"
    assert client.post("/v1/arrays", document).status == 202


def test_an_array_that_there_is_not_is_not_found(client: Client) -> None:
    is_a_problem(client.get("/v1/arrays/arr-1"), 404, "not-found")
    is_a_problem(client.get(f"/v1/arrays/arr-{'0' * 26}"), 404, "not-found")
