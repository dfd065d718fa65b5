"""Labels over HTTP: given, changed one by one, and refused with what would be right."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from tests.support.http_events import Client, is_a_problem, spec
from tests.support.memory import World

from trainyard.domain.errors import ConflictError

DECOMPOSED = unicodedata.normalize("NFD", "Größe")


def submit(client: Client, labels: dict[str, Any]) -> Any:
    return client.post("/v1/runs", {**spec(), "labels": labels})


def test_labels_are_kept_in_one_form_whatever_way_they_were_written(client: Client) -> None:
    run = submit(client, {DECOMPOSED: DECOMPOSED, "имя": "日本語 👩\u200d🔬"}).json
    assert run["labels"] == {"Größe": "Größe", "имя": "日本語 👩\u200d🔬"}
    assert run["spec"]["labels"] == run["labels"]
    found = client.get("/v1/runs", query={"label": f"{DECOMPOSED}={DECOMPOSED}"}).json["runs"]
    assert [one["id"] for one in found] == [run["id"]]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"": "x"}, "1 to 63"),
        ({"-a": "x"}, "must begin with a letter or digit"),
        ({"a,b": "x"}, "only letters, digits"),
        ({"a=b": "x"}, "only letters, digits"),
        ({"k" * 64: "x"}, "1 to 63"),
        ({"a": "x\ny"}, "U+000A"),
        ({"a": "\u202egnp"}, "U+202E"),
        ({"a": "x" * 129}, "at most 128"),
        ({f"k{number}": "" for number in range(21)}, "at most 20"),
        ({"Größe": "1", DECOMPOSED: "2"}, "twice"),
    ],
)
def test_a_label_that_cannot_be_is_refused_with_what_would_be_right(
    client: Client, labels: dict[str, str], words: str
) -> None:
    answer = submit(client, labels)
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.fields["labels"]
    run = submit(client, {}).json["id"]
    answer = client.send("PATCH", f"/v1/runs/{run}", body={"labels": labels})
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.fields["labels"]


def test_labels_are_set_and_taken_away_and_the_others_stay(client: Client, world: World) -> None:
    run = submit(client, {"exp": "3", "old": "", "stays": "yes"}).json["id"]
    change = {"labels": {"exp": "4", "old": None, "none": None, "new": ""}}
    answer = client.send("PATCH", f"/v1/runs/{run}", body=change)
    assert answer.json["labels"] == {"exp": "4", "stays": "yes", "new": ""}
    version = world.runs.get(run).version
    assert client.send("PATCH", f"/v1/runs/{run}", body=change).status == 200
    assert world.runs.get(run).version == version
    assert client.get(f"/v1/runs/{run}").json["spec"]["labels"]["exp"] == "3"


def test_a_state_machine_that_writes_at_the_same_moment_loses_nothing(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submit(client, {"exp": "3"}).json["id"]
    put = world.runs.put
    meets: list[int] = []

    def meeting(record: Any, lines: Any = ()) -> Any:
        if not meets:
            meets.append(1)
            put(world.runs.get(run).model_copy(update={"status": "Running"}))
        return put(record, lines)

    monkeypatch.setattr(world.runs, "put", meeting)
    answer = client.send("PATCH", f"/v1/runs/{run}", body={"labels": {"exp": "4"}})
    assert (answer.json["status"], answer.json["labels"]) == ("Running", {"exp": "4"})
    meets.clear()
    etag = {"If-Match": client.get(f"/v1/runs/{run}").headers["ETag"]}
    body = {"labels": {"exp": "5"}}
    is_a_problem(
        client.send("PATCH", f"/v1/runs/{run}", body=body, headers=etag), 412, "precondition-failed"
    )


def test_a_record_that_never_rests_is_said_to_be_so(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submit(client, {}).json["id"]

    def refused(*_: Any) -> Any:
        raise ConflictError("changed")

    monkeypatch.setattr(world.runs, "put", refused)
    answer = client.send("PATCH", f"/v1/runs/{run}", body={"labels": {"exp": "4"}})
    assert answer.status == 503
    assert "Retry-After" in answer.headers


@pytest.mark.parametrize(
    "body", [{}, {"labels": []}, {"labels": {"a": 1}}, {"labels": {}, "name": "x"}]
)
def test_a_change_of_labels_says_nothing_else(client: Client, body: dict[str, Any]) -> None:
    run = submit(client, {}).json["id"]
    is_a_problem(client.send("PATCH", f"/v1/runs/{run}", body=body), 400, "invalid-request")


def test_clusters_are_labelled_as_runs_are(client: Client) -> None:
    client.post("/v1/clusters", {**spec()["cluster"]["spec"], "labels": {"team": "a"}})
    answer = client.send("PATCH", "/v1/clusters/demo", body={"labels": {"team": "b", "x": None}})
    assert answer.json["labels"] == {"team": "b"}
    assert client.get("/v1/clusters/demo").json["labels"] == {"team": "b"}
    is_a_problem(
        client.send("PATCH", "/v1/clusters/none", body={"labels": {}}), 404, "cluster-not-found"
    )


def test_a_priority_is_given_with_the_run_shown_and_changed(client: Client) -> None:
    run = submit(client, {}).json
    assert (run["priority"], run["spec"]["priority"], run["turnWaitsSince"]) == (0, 0, None)
    answer = client.send("PATCH", f"/v1/runs/{run['id']}", body={"priority": 40})
    assert (answer.status, answer.json["priority"], answer.json["labels"]) == (200, 40, {})
    is_a_problem(
        client.send("PATCH", f"/v1/runs/{run['id']}", body={"priority": 101}),
        400,
        "invalid-request",
    )
