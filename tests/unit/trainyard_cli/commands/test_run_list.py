"""`run ls`, `run label` and what RUN may be: found by what runs are, and shown on 80 columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.fake_api import CLUSTER, RUN, FakeApi, a_run, serve_a_whole_run

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]
OTHER = "run-01jd0000000000000000000001"


def test_what_a_list_is_narrowed_by_is_asked_of_the_api(api: FakeApi, trainyard: Command) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run()]})
    code, _, err = trainyard(
        "run", "ls", "--mine", "--label", "exp=3", "-l", "team", "--status", "failed,Running",
        "--status", "pending", "--name", "demo-*", "--cluster", "c", "--by", "ann",
        "--since", "2026-11-01T00:00Z", "--until", "2026-11-02T00:00+01:00",
        "--order", "oldest", "--limit", "7",
    )  # fmt: skip
    assert (code, err) == (0, "")
    [call] = api.calls("GET /v1/runs")
    assert call["query"] == {
        "limit": "7", "mine": "true", "label": "exp=3", "status": "failed,Running,pending",
        "name": "demo-*", "cluster": "c", "createdBy": "ann", "order": "oldest",
        "since": "2026-11-01T00:00:00.000000Z", "until": "2026-11-01T23:00:00.000000Z",
    }  # fmt: skip
    assert "label=exp%3D3&label=team" in call["raw"]


@pytest.mark.parametrize(("given", "hours"), [("2d", 48), ("12h", 12), ("90m", 1.5), ("60s", 0)])
def test_a_time_ago_is_counted_from_now(
    api: FakeApi, trainyard: Command, given: str, hours: float
) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": []})
    trainyard("run", "ls", "--since", given)
    sent = datetime.fromisoformat(api.calls("GET /v1/runs")[0]["query"]["since"])
    back = datetime.now(timezone.utc) - sent
    assert abs(back - timedelta(hours=hours)) < timedelta(minutes=5)


def test_a_date_is_its_midnight_here(api: FakeApi, trainyard: Command) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": []})
    trainyard("run", "ls", "--since", "2026-11-01")
    sent = datetime.fromisoformat(api.calls("GET /v1/runs")[0]["query"]["since"])
    assert sent == datetime(2026, 11, 1).astimezone()


@pytest.mark.parametrize("given", ["yesterday", "2", "2026-13-01", "2w", ""])
def test_what_is_no_time_is_refused_with_what_one_looks_like(
    api: FakeApi, trainyard: Command, given: str
) -> None:
    code, _, err = trainyard("run", "ls", "--since", given)
    assert (code, "2026-11-01" in err, api.requests) == (2, True, [])


def test_a_list_with_nothing_says_whether_something_was_asked_for(
    api: FakeApi, trainyard: Command
) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": []})
    assert "No runs yet" in trainyard("run", "ls")[1]
    assert "No run is like that" in trainyard("run", "ls", "--label", "a")[1]


def test_pages_that_found_nothing_are_passed_over(api: FakeApi, trainyard: Command) -> None:
    api.answers["GET /v1/runs"] = [
        (200, {"runs": [], "nextToken": "a"}),
        (200, {"runs": [], "nextToken": "b"}),
        (200, {"runs": [a_run()], "nextToken": None}),
    ]
    assert RUN in trainyard("run", "ls", "--label", "rare")[1]


def test_ids_and_json_are_for_programs(api: FakeApi, trainyard: Command) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run(), a_run(id=OTHER)]})
    assert trainyard("run", "ls", "-o", "id")[1].split() == [RUN, OTHER]
    document = json.loads(trainyard("run", "ls", "-o", "json")[1])
    assert [run["id"] for run in document["runs"]] == [RUN, OTHER]


def test_on_eighty_columns_no_row_runs_over_and_each_reason_is_below_its_run(
    api: FakeApi, trainyard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard_cli.screen.output.out.width", 80)
    reason = "The program failed at step 96: " + "word " * 30 + "end"
    runs = [
        a_run("WaitingForNode", name="a-name-of-22-letters-x", reason=reason),
        a_run("Succeeded", id=OTHER, name="b", reason="All is exported."),
    ]
    api.answers["GET /v1/runs"] = (200, {"runs": runs})
    _, out, _ = trainyard("run", "ls")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["run", "name", "status", "age"]
    assert lines[1].split()[:3] == [RUN, "a-name-of-22-letters-x", "WaitingForNode"]
    below = out.partition(RUN)[2].partition(OTHER)[0]
    assert " ".join(reason.split()) in " ".join(below.split())
    assert lines[-1].strip() == "All is exported."


def test_labels_are_shown_where_they_are_asked_for(api: FakeApi, trainyard: Command) -> None:
    run = a_run(labels={"exp": "3", "[bold]": ""})
    api.answers["GET /v1/runs"] = (200, {"runs": [run]})
    assert "exp=3, [bold]" in trainyard("run", "ls", "--show-labels")[1]
    assert "exp=3" not in trainyard("run", "ls")[1]
    serve_a_whole_run(api)
    api.answers[f"GET /v1/runs/{RUN}"] = (200, run)
    assert "exp=3, [bold]" in trainyard("run", "show", RUN)[1]


def test_labels_are_set_and_taken_away(api: FakeApi, trainyard: Command) -> None:
    api.answers[f"PATCH /v1/runs/{RUN}"] = (200, a_run(labels={"exp": "3"}))
    code, out, _ = trainyard("run", "label", RUN, "exp=3", "-old", "note=a=b, c")
    assert (code, out.strip()) == (0, f"{RUN}: exp=3")
    [call] = api.calls(f"PATCH /v1/runs/{RUN}")
    assert json.loads(call["body"]) == {"labels": {"exp": "3", "old": None, "note": "a=b, c"}}
    api.answers["PATCH /v1/clusters/mine-abc"] = (200, {**CLUSTER, "labels": {}})
    assert trainyard("cluster", "label", "mine-abc", "-team")[0] == 0


@pytest.mark.parametrize("given", ["exp", "=3", ""])
def test_what_is_no_change_of_a_label_is_refused(
    api: FakeApi, trainyard: Command, given: str
) -> None:
    code, _, err = trainyard("run", "label", RUN, given)
    assert (code, "KEY=VALUE" in err, api.requests) == (2, True, [])


@pytest.mark.parametrize(
    "command",
    ["show", "events", "logs", "metrics", "cancel", "resume", "outputs", "watch", "label"],
)
def test_a_run_that_is_meant_by_its_name_is_found_once_and_named(
    api: FakeApi, trainyard: Command, command: str
) -> None:
    serve_a_whole_run(api)
    done = a_run("Succeeded", clusterDeleted=True)
    empty: dict[str, Any] = {"uri": "s3://b/p/", "outputs": []}
    api.answers |= {
        "GET /v1/runs/latest": (200, done),
        f"GET /v1/runs/{RUN}": (200, done),
        f"GET /v1/runs/{RUN}/logs": (
            200,
            {"kind": "job", "attempt": 1, "source": "node", "text": "a"},
        ),
        f"GET /v1/runs/{RUN}/metrics": (200, {"nodes": {}, "run": []}),
        f"GET /v1/runs/{RUN}/outputs": (200, empty),
        f"POST /v1/runs/{RUN}:cancel": (202, done),
        f"POST /v1/runs/{RUN}:resume": (202, done),
        f"PATCH /v1/runs/{RUN}": (200, done),
    }
    more = ["a=b"] if command == "label" else []
    code, _, err = trainyard("run", command, "latest", *more)
    assert (code, f"latest is {RUN}" in err) == (0, True)
    assert len(api.calls("GET /v1/runs/latest")) == 1
    others = [call["path"] for call in api.requests if "latest" not in call["path"]]
    assert others
    assert all(RUN in path or "clusters" in path for path in others)


def test_a_name_that_two_runs_have_shows_both_and_does_nothing(
    api: FakeApi, trainyard: Command
) -> None:
    problem = {
        "title": "That means several runs",
        "code": "run-ambiguous",
        "detail": f"'twin' may be one of 2 runs: {RUN}, {OTHER}.",
        "nextStep": "Give the id of one of them.",
        "errors": [{"field": "runId", "message": f"may be {RUN}: 'twin', Running"}],
    }
    api.answers["GET /v1/runs/twin"] = (409, problem)
    code, _, err = trainyard("run", "cancel", "twin", "--yes")
    assert (code, OTHER in err, "Give the id" in err) == (4, True, True)
    assert [call["method"] for call in api.requests] == ["GET"]
