"""Lists over HTTP: what they are asked for, what they show, and what of it is refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from tests.support.http_events import Answer, Client, changed, event, is_a_problem, spec
from tests.support.memory import World


def submit(client: Client, name: str = "demo", **labels: str) -> str:
    answer = client.post("/v1/runs", {**spec(), "name": name, "labels": labels})
    assert answer.status == 202, answer.text
    return str(answer.json["id"])


def end(world: World, run_id: str, status: str) -> None:
    world.runs.put(world.runs.get(run_id).model_copy(update={"status": status}))


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [run["id"] for run in answer.json["runs"]]


def repeated(client: Client, path: str, *pairs: tuple[str, str]) -> Answer:
    """As the gateway sends parameters that are given several times: joined by commas."""
    made = event("GET", path)
    joined: dict[str, list[str]] = {}
    for name, value in pairs:
        joined.setdefault(name, []).append(value)
    made["queryStringParameters"] = {name: ",".join(values) for name, values in joined.items()}
    made["rawQueryString"] = urlencode(pairs)
    raw = client.api.handle(made, None)
    return Answer(raw["statusCode"], raw["headers"], raw["body"])


def test_runs_are_listed_by_label_status_name_and_cluster_at_once(
    client: Client, world: World
) -> None:
    first = submit(client, "a", exp="3", who="ann, bob")
    second = submit(client, "a", exp="3")
    third = submit(client, "b", exp="4")
    end(world, first, "Failed")
    end(world, third, "Failed")
    asked = [("label", "exp=3"), ("label", "who"), ("status", "failed"), ("name", "a*")]
    assert ids(repeated(client, "/v1/runs", *asked)) == [first]
    assert ids(repeated(client, "/v1/runs", ("label", "who=ann, bob"))) == [first]
    assert ids(repeated(client, "/v1/runs", ("label", "exp=3"))) == [second, first]
    assert ids(client.get("/v1/runs", query={"status": "FAILED,pending"})) == [
        third,
        second,
        first,
    ]
    cluster = world.runs.get(second).cluster_name
    assert ids(client.get("/v1/runs", query={"cluster": cluster})) == [second]
    assert ids(client.get("/v1/runs", query={"order": "oldest", "limit": 1})) == [first]


def test_runs_are_listed_by_time_in_any_zone(client: Client, world: World) -> None:
    first = submit(client)
    world.clock.tick(3600)
    second = submit(client)
    for since, found in {
        "2026-11-20T12:00:00Z": [second, first],
        "2026-11-20T22:00:01+10:00": [second],
        "2026-11-20T13:00:01Z": [],
    }.items():
        assert ids(client.get("/v1/runs", query={"since": since})) == found
    assert ids(client.get("/v1/runs", query={"until": "2026-11-20T13:00:00Z"})) == [first]


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ({"status": "sleeping"}, "status", "must be one of"),
        ({"status": "failed,"}, "status", "must be one of"),
        ({"label": "=3"}, "label", "1 to 63 letters"),
        ({"label": "a b=3"}, "label", "letters, digits"),
        ({"label": "a=\x07"}, "label", "U+0007"),
        ({"label": "a=" + "x" * 129}, "label", "at most 128"),
        ({"since": "yesterday"}, "since", "with its zone, such as"),
        ({"since": "2026-11-20T12:00:00"}, "since", "with its zone, such as"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "since", "years 1 to 9999"),
        ({"until": "9999-12-31T23:59:59-12:00"}, "until", "years 1 to 9999"),
        ({"since": "10000-01-01T00:00:00Z"}, "since", "with its zone, such as"),
        ({"order": "random"}, "order", "must be"),
        ({"name": ""}, "name", ""),
        ({"color": "red"}, "color", "use one of"),
    ],
)
def test_what_no_list_can_be_asked_for_is_refused_by_its_name(
    client: Client, query: dict[str, str], field: str, words: str
) -> None:
    answer = client.get("/v1/runs", query=query)
    is_a_problem(answer, 400, "invalid-request")
    assert words in answer.fields[field]


def test_more_labels_than_one_request_may_have_are_refused(client: Client) -> None:
    answer = repeated(client, "/v1/runs", *[("label", f"k{number}") for number in range(11)])
    is_a_problem(answer, 400, "invalid-request")
    assert "at most 10" in answer.fields["label"]


def test_a_page_token_of_another_filter_is_refused_and_says_so(client: Client) -> None:
    for _ in range(3):
        submit(client, exp="3")
    query = {"limit": 1, "label": "exp=3"}
    token = client.get("/v1/runs", query=query).json["nextToken"]
    assert client.get("/v1/runs", query={**query, "nextToken": token}).status == 200
    answer = client.get("/v1/runs", query={"limit": 1, "label": "exp=4", "nextToken": token})
    is_a_problem(answer, 400, "invalid-page-token")
    assert "Start again without nextToken" in answer.json["nextStep"]
    assert "start again without it" in answer.fields["nextToken"]


def test_the_first_and_the_last_times_that_there_are_may_be_asked_for(
    client: Client, world: World
) -> None:
    run = submit(client)
    for since in ("0001-01-01T00:00:00Z", "0999-12-31T00:00:00Z"):
        query = {"since": since, "until": "9999-12-31T23:59:59Z"}
        assert ids(client.get("/v1/runs", query=query)) == [run]


def test_a_list_has_no_specs_and_nothing_of_the_inside(client: Client) -> None:
    body = changed("job.files", {"main.py": "print('long')"})
    client.post("/v1/runs", {**body, "labels": {"exp": "3"}})
    answer = client.get("/v1/runs")
    [run] = answer.json["runs"]
    assert run["labels"] == {"exp": "3"}
    inside = {"spec", "attempts", "handledFacts", "generation", "life", "troubles",
              "clusterGeneration", "version"}  # fmt: skip
    assert not inside & set(run)
    assert "print" not in answer.text


def test_a_list_of_clusters_says_what_they_are_without_their_specs(client: Client) -> None:
    cluster = {**spec()["cluster"]["spec"], "labels": {"team": "vision"}}
    client.post("/v1/clusters", cluster)
    client.post("/v1/clusters", {**cluster, "name": "other", "labels": {}})
    [found] = client.get("/v1/clusters", query={"label": "team=vision"}).json["clusters"]
    assert (found["name"], found["backend"], found["labels"]) == (
        "demo",
        "hyperpod",
        {"team": "vision"},
    )
    assert not {"spec", "generation"} & set(found)
    assert found["groups"][1] == {
        "name": "worker",
        "role": "worker",
        "instanceType": "ml.c5.xlarge",
        "count": 2,
        "spares": 1,
    }
    assert [one["name"] for one in client.get("/v1/clusters").json["clusters"]] == ["other", "demo"]
    is_a_problem(client.get("/v1/clusters", query={"status": "Running"}), 400, "invalid-request")


def test_filesystems_are_listed_by_status_and_name(client: Client) -> None:
    empty: dict[str, Any] = {"filesystems": [], "nextToken": None}
    query = {"status": "available", "name": "data-*"}
    assert client.get("/v1/filesystems", query=query).json == empty
    is_a_problem(client.get("/v1/filesystems", query={"label": "a"}), 400, "invalid-request")
