"""Turns on a shared cluster with real Slurm: by priority, within a limit, and by themselves."""

from __future__ import annotations

from datetime import datetime

from tests.support.system import Json, System, light_job, total


def first_step(run: Json) -> datetime:
    return datetime.fromisoformat(run["attempts"][0]["firstStepAt"])


def waits(system: System, run_id: str) -> Json:
    return system.until(run_id, "it waits for its turn", lambda run: run["turnWaitsSince"])


def test_runs_of_a_full_cluster_wait_outside_slurm_and_begin_by_priority(
    system: System, shared: str
) -> None:
    first = system.submit("first", light_job(2, steps=40, every=10, hold_at=35), shared)
    system.training(first)
    usual = system.submit("usual", light_job(2, steps=20, every=10), shared)
    waits(system, usual)
    urgent = system.submit("urgent", light_job(2, steps=20, every=10), shared, priority=10)
    run = waits(system, urgent)
    assert (run["status"], run["attempts"]) == ("Waiting", [])
    assert "other runs have its nodes" in run["reason"]
    system.release(first)
    ended = {one: system.ended(one, "Succeeded", 180) for one in (first, urgent, usual)}
    assert first_step(ended[urgent]) < first_step(ended[usual]), system.story(usual)
    assert [len(run["attempts"]) for run in ended.values()] == [1, 1, 1]
    assert [system.value(one) for one in (urgent, usual)] == [total(20)] * 2


def test_a_limit_of_a_label_holds_a_run_back_though_a_node_is_free(
    system: System, shared: str
) -> None:
    system.api.share_fairly(shared, {"limits": [{"label": "team", "maxRuns": 1}]})
    try:
        job, team = light_job(1, steps=40, every=10, hold_at=35), {"team": "vision"}
        first = system.submit("first", job, shared, labels=team)
        system.training(first)
        second = system.submit("second", light_job(1, steps=20, every=10), shared, labels=team)
        assert "label team=vision may use at most 1 run" in waits(system, second)["reason"]
        other = system.submit("other", light_job(1, steps=20, every=10), shared)
        system.ended(other, "Succeeded", 120)
        assert system.api.run(second)["status"] == "Waiting"
        system.release(first)
        system.ended(first, "Succeeded", 120)
        system.ended(second, "Succeeded", 180)
    finally:
        system.api.share_fairly(shared, {"limits": []})
