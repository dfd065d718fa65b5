"""Many runs at once: how ends, lost runs and throttled calls are counted, and what is timed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from bench import many_runs

from trainyard_sdk.problems import ApiProblem

Json = dict[str, Any]


class Api:
    """Runs whose status is given; a run that is not in the table is unknown."""

    def __init__(self, statuses: dict[str, str], members: list[str | None]) -> None:
        self.statuses, self.members = statuses, members

    def array_members(self, array: str) -> list[Json]:
        return [{"index": at, "runId": run_id} for at, run_id in enumerate(self.members)]

    def run(self, run_id: str) -> Json:
        if run_id not in self.statuses:
            raise ApiProblem(404, {"title": "not found", "code": "not-found"})
        return {"status": self.statuses[run_id]}


def test_all_that_succeeded_once_is_whole() -> None:
    api = Api({"a": "Succeeded", "b": "Succeeded", "c": "Succeeded"}, ["a", "b"])
    found = many_runs.ends(api, "array", ["c"], 2)
    assert found == {
        "array": {"Succeeded": 2}, "others": {"Succeeded": 1}, "lost": 0, "twice": 0,
    }  # fmt: skip
    assert many_runs.whole(found, 2, 1)


@pytest.mark.parametrize(
    ("members", "others", "lost"),
    [
        (["a", None], ["c"], 1),  # it never began
        (["a"], ["c"], 1),  # the array does not list it
        (["a", "unknown"], ["c"], 1),
        (["a", "goes-on"], ["c"], 1),
        (["a", "b"], ["unknown"], 1),
    ],
)
def test_a_run_that_has_no_end_is_lost(
    members: list[str | None], others: list[str], lost: int
) -> None:
    known = {"a": "Succeeded", "b": "Succeeded", "c": "Succeeded", "goes-on": "Training"}
    found = many_runs.ends(Api(known, members), "array", others, 2)
    assert found["lost"] == lost
    assert not many_runs.whole(found, 2, 1)


def test_members_that_share_a_run_and_runs_that_failed_are_not_whole() -> None:
    api = Api({"a": "Succeeded", "b": "Failed", "c": "Succeeded"}, ["a", "a"])
    shared = many_runs.ends(api, "array", ["c"], 2)
    assert shared["twice"] == 1
    assert not many_runs.whole(shared, 2, 1)
    api.members = ["a", "b"]
    assert not many_runs.whole(many_runs.ends(api, "array", ["c"], 2), 2, 1)


@pytest.mark.parametrize(
    ("order", "ahead", "fair"), [("aoaoaoaa", 3, True), ("aaaaaooo", 5, False)]
)
def test_turns_are_fair_if_the_array_is_not_ahead(order: str, ahead: int, fair: bool) -> None:
    begun = {f"{team}{at}": f"2026-11-20T00:00:{at:02}Z" for at, team in enumerate(order)}

    class Begun(Api):
        def run(self, run_id: str) -> Json:
            return {"attempts": [{"startedAt": begun[run_id]}]}

    members: list[str | None] = [name for name in begun if name.startswith("a")]
    others = [name for name in begun if name.startswith("o")]
    found = many_runs.fairness(Begun({}, members), "array", others, 0)
    assert found["membersBegunWhenTheLastOtherBegan"] == ahead
    assert found["fair"] is fair


def test_only_an_unknown_run_is_lost_and_an_api_that_fails_is_an_error() -> None:
    class Broken(Api):
        def run(self, run_id: str) -> Json:
            raise ApiProblem(503, {"title": "away", "code": "unavailable"})

    with pytest.raises(ApiProblem):
        many_runs.ends(Broken({}, ["a"]), "array", [], 1)


def test_answers_are_counted_by_their_status() -> None:
    codes = iter([200, 429, 429, 200])
    inner = httpx.MockTransport(lambda _: httpx.Response(next(codes)))
    counting = many_runs.Counting(inner)
    with httpx.Client(transport=counting) as client:
        assert [client.get("http://here/").status_code for _ in range(4)] == [200, 429, 429, 200]
    sessions: list[Json] = [
        {"sessions": {"started": 3, "throttled": 1}},
        {"sessions": {"started": 13, "throttled": 5}},
    ]
    assert many_runs.throttled(*sessions, counting.answers) == {
        "sessionsStarted": 10, "sessionsThrottled": 4, "apiThrottled": 2,
    }  # fmt: skip


def test_errors_of_functions_are_those_since_the_beginning() -> None:
    def status(**counts: int) -> Json:
        return {"functions": {"deployed": {name: {"errors": n} for name, n in counts.items()}}}

    assert many_runs.errors(status(steps=2, api=1), status(steps=5, api=1)) == {"steps": 3}


def test_a_round_times_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr(many_runs, "time", clock)

    def takes(seconds: float) -> Json:
        now[0] += seconds
        return {"status": "Running"}

    api = SimpleNamespace(
        runs=lambda at_most: takes(1), run=lambda _: takes(2), array=lambda _: takes(3)
    )
    watch = many_runs.Watch(api)
    for _ in range(3):
        watch.look("array", "run")
    figures = watch.figures()
    assert {words: found["medianSeconds"] for words, found in figures.items()} == {
        "list the newest 20": 1, "show a run": 2, "show the array": 3,
    }  # fmt: skip
    assert figures["show a run"]["samples"] == 3


def test_sweeps_go_on_beside_the_questions_and_one_that_fails_fails_all() -> None:
    watch, again = many_runs.Watch(None), threading.Event()
    done: list[int] = []

    def sweep() -> None:
        done.append(1)
        if len(done) == 2:
            again.set()

    with watch.sweeping(sweep, 0):
        assert again.wait(60)
    assert watch.figures()["sweep"]["samples"] == len(done) >= 2

    def fails() -> None:
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"), watch.sweeping(fails, 0):
        pass
