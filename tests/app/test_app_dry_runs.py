"""Arrays and schedules tried dry: what they would do, cost and be refused for. Nothing is done."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.app.test_app_changes import ME, NIGHTLY, VIEWER, Scene, empty, on_shared, swept
from tests.support.http_events import is_a_problem, spec
from tests.support.story import Story

from trainyard.domain.approvals import ApprovalRules

DRY = {"dryrun": "true"}
#: A day before the clocks of Europe go forward.
MARCH = datetime(2027, 3, 26, 12, tzinfo=timezone.utc)


def kept(story: Story) -> list[Any]:
    """All that a dry run could have left."""
    world = story.world
    stores = (world.runs, world.arrays, world.schedules, world.clusters)
    return [copy.deepcopy(store.stored) for store in stores] + [
        dict(world.executions.started),
        dict(world.backend.clusters),
    ]


def dry(scene: Scene, path: str, body: Any, **rest: Any) -> dict[str, Any]:
    before, entries = kept(scene.story), len(scene.entries())
    answer = scene.client.post(path, body, query=DRY, **rest)
    assert answer.status == 200, answer.text
    assert kept(scene.story) == before
    assert len(scene.entries()) == entries
    return dict(answer.json)


def array(members: int, parallel: int, **run: Any) -> dict[str, Any]:
    found = swept()
    found["run"] |= run
    parameters = [{"lr": f"0.{number}"} for number in range(members)]
    return {**found, "parameters": parameters, "maxParallel": parallel}


LIMITS = {"limits": {"expectedSeconds": 1800, "maxDurationSeconds": 7200}}


def priced() -> Scene:
    """A cluster of two workers, of which an hour costs six dollars."""
    scene = empty()
    clusters = scene.story.world.clusters
    cluster = clusters.get("shared")
    clusters.put(cluster.changed(spec=cluster.spec.changed(hourly_usd=6.0)))
    return scene


def test_an_array_says_its_members_waves_and_what_one_and_all_of_them_cost() -> None:
    plan = dry(priced(), "/v1/arrays", array(10, 4, **LIMITS))
    assert (plan["total"], plan["waves"]) == (10, [4, 4, 2])
    assert (plan["firstName"], plan["firstParameters"]) == ("ddp-demo-0", {"lr": "0.0"})
    first = plan["first"]
    assert "ddp-demo" not in str(first["operation"])
    hour = first["hourlyUsd"]
    assert plan["one"] == {
        "hourlyUsd": hour, "expectedUsd": hour / 2, "mostUsd": hour * 2
    }  # fmt: skip
    assert plan["all"] == {
        "hourlyUsd": hour * 4, "expectedUsd": hour * 5, "mostUsd": hour * 20
    }  # fmt: skip
    assert plan["refused"] == []


def test_an_array_with_a_cluster_of_its_own_pays_for_it_wave_after_wave() -> None:
    scene = empty()
    body = array(5, 2, **LIMITS)
    body["run"]["cluster"] = spec()["cluster"]
    body["run"]["cluster"]["spec"]["hourlyUsd"] = 6.0
    plan = dry(scene, "/v1/arrays", body)
    assert plan["waves"] == [2, 2, 1]
    assert plan["first"]["operation"] == "CreateCluster"
    assert plan["all"] == {"hourlyUsd": 6.0, "expectedUsd": 9.0, "mostUsd": 36.0}
    assert plan["one"]["hourlyUsd"] == 2.0  # one node of three


def test_budgets_of_members_bound_what_all_of_them_cost() -> None:
    budget = {"budget": {"maxUsd": 5.0, "tailSeconds": 60}}
    plan = dry(priced(), "/v1/arrays", array(4, 4, **LIMITS, **budget))
    assert plan["one"]["mostUsd"] == min(5.0, plan["one"]["hourlyUsd"] * 2)
    assert plan["all"]["mostUsd"] == plan["one"]["mostUsd"] * 4


def test_what_is_not_known_is_null() -> None:
    plan = dry(empty(), "/v1/arrays", array(2, 1))
    assert plan["one"]["expectedUsd"] is None


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"cluster": {"name": "gone"}}, "cluster-not-found", "gone"),
        ({"after": ["run-01jd0000000000000000000000"]}, "invalid-request", "there is no run"),
    ],
)
def test_an_array_that_would_be_refused_says_why_and_all_else(
    change: dict[str, Any], code: str, said: str
) -> None:
    plan = dry(empty(), "/v1/arrays", array(3, 1, **change))
    assert (plan["first"], plan["waves"]) == (None, [1, 1, 1])
    (refused,) = plan["refused"]
    assert (refused["run"], refused["code"]) == ("ddp-demo-0", code)
    assert said in refused["detail"]
    assert plan["one"] == {"hourlyUsd": None, "expectedUsd": None, "mostUsd": None}


def test_a_viewer_tries_all_of_it_and_reads_that_it_would_be_refused() -> None:
    scene = empty()
    scene.client = scene.client.of(VIEWER)
    for path, body in (("/v1/arrays", array(2, 1)), ("/v1/schedules", NIGHTLY)):
        (refused,) = dry(scene, path, body)["refused"]
        assert (refused["run"], refused["code"]) == ("", "not-allowed")
        assert "viewers only read" in refused["detail"]


def test_it_says_that_members_would_wait_for_people() -> None:
    scene = priced()
    ports = scene.story.world.ports
    rules = ApprovalRules(above_usd=0.5)
    scene.story.world.ports = replace(ports, config=replace(ports.config, approvals=rules))
    plan = dry(scene, "/v1/arrays", array(2, 1, **LIMITS))
    assert any("would wait for people" in one for one in plan["first"]["warnings"])


def test_a_mistake_in_the_spec_is_refused_as_ever() -> None:
    answer = empty().client.post("/v1/arrays", {**swept(), "maxParallel": 0}, query=DRY)
    is_a_problem(answer, 400, "invalid-request")
    answer = empty().client.post("/v1/schedules", {**NIGHTLY, "timezone": "Mars"}, query=DRY)
    is_a_problem(answer, 400, "invalid-request")


def at(scene: Scene, moment: datetime) -> None:
    clock = scene.story.world.clock
    clock.tick((moment - clock.now()).total_seconds())


def test_a_schedule_says_its_next_times_in_its_zone_over_the_change_of_the_clocks() -> None:
    scene = empty()
    at(scene, MARCH)
    nightly = {**NIGHTLY, "cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    plan = dry(scene, "/v1/schedules", nightly)
    assert plan["timezone"] == "Europe/Berlin"
    assert [one["local"] for one in plan["nextTimes"]] == [
        "2027-03-27T02:30:00+01:00",
        # on the 28th there is no half past two
        "2027-03-29T02:30:00+02:00",
        "2027-03-30T02:30:00+02:00",
        "2027-03-31T02:30:00+02:00",
        "2027-04-01T02:30:00+02:00",
    ]
    assert plan["nextTimes"][0]["at"] == "2027-03-27T01:30:00Z"
    assert plan["nextTimes"][1]["at"] == "2027-03-29T00:30:00Z"


def test_the_times_that_are_told_are_those_that_it_has() -> None:
    scene = empty()
    told = dry(scene, "/v1/schedules", NIGHTLY)["nextTimes"]
    made = scene.made("/v1/schedules", NIGHTLY)
    assert made["nextTimes"] == [one["at"] for one in told]


def test_a_chain_says_each_run_and_what_all_of_them_cost() -> None:
    train, evaluate = {**on_shared(), "name": "train"}, {**on_shared(), "name": "evaluate"}
    follows = {"after": ["train"], "inputs": [{"source": "run:train/outputs/final", "path": "m"}]}
    chain = {"name": "nightly", "cron": "0 2 * * *", "runs": [train, {**evaluate, **follows}]}
    for run in chain["runs"]:
        assert isinstance(run, dict)
        run |= LIMITS
    plan = dry(priced(), "/v1/schedules", chain)
    assert [one["name"] for one in plan["runs"]] == ["train", "evaluate"]
    hour = plan["runs"][0]["plan"]["hourlyUsd"]
    assert plan["one"] == {"hourlyUsd": hour, "expectedUsd": hour, "mostUsd": hour * 4}
    assert plan["all"]["mostUsd"] == hour * 20
    assert plan["refused"] == []


def test_each_run_of_a_chain_that_would_be_refused_is_named() -> None:
    runs = [{**on_shared(), "name": name} for name in ("one", "two", "three")]
    for run in runs[1:]:
        run["cluster"] = {"name": "gone"}
    chain = {"name": "nightly", "cron": "0 2 * * *", "runs": runs}
    plan = dry(empty(), "/v1/schedules", chain)
    assert [one["run"] for one in plan["refused"]] == ["two", "three"]
    assert plan["one"]["mostUsd"] is None


def test_a_name_that_another_schedule_has_is_told() -> None:
    scene = empty()
    scene.made("/v1/schedules", NIGHTLY)
    assert dry(scene, "/v1/schedules", NIGHTLY)["refused"] == []
    (refused,) = dry(scene, "/v1/schedules", {**NIGHTLY, "cron": "0 3 * * *"})["refused"]
    assert "a schedule named 'nightly' exists" in refused["detail"]
    assert ME.arn not in refused["detail"]
