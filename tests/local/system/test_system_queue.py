"""Clusters shared with other jobs and runs: what waits in Slurm's queue, for whom, how long."""

from __future__ import annotations

from datetime import datetime

from tests.support.system import Json, System, light_job, total

#: From a node's return to the first step on it, on a busy machine. `bench/recovery.py` asks for 15.
BACK_TO_STEP_SECONDS = 60.0


def seconds_from_return(system: System, run: Json) -> float:
    """From the last return of a node to the newest attempt's first step."""
    returned = system.timeline(run["id"], "NodeReturned")[-1]["at"]
    stepped = run["attempts"][-1]["firstStepAt"]
    return (datetime.fromisoformat(stepped) - datetime.fromisoformat(returned)).total_seconds()


def test_a_run_whose_spare_another_job_holds_trains_on_the_replacement_as_soon_as_it_serves(
    system: System, shared: str
) -> None:
    run_id = system.submit("shared-spare", light_job(2, steps=60, every=10, hold_at=55), shared)
    used = system.training(run_id, checkpoints=1)["attempts"][0]["nodes"]
    with system.job_of_a_person(shared) as job:
        lost = system.node(shared, used[1])
        system.fault("kill-node", shared, node=lost["instanceId"])
        told = f"waits in Slurm's queue behind job {job} of root on "
        system.until(run_id, "it says who holds the spare", lambda run: told in run["reason"])
        run = system.training(run_id, 2)
        assert seconds_from_return(system, run) < BACK_TO_STEP_SECONDS, system.story(run_id)
        assert lost["name"] in run["attempts"][1]["nodes"]
        assert run["attempts"][1]["exclude"] == []
        assert any(
            f"may use {lost['name']} again" in line["message"]
            for line in system.timeline(run_id, "Repair")
        )
        system.release(run_id)
        assert len(system.ended(run_id, "Succeeded")["attempts"]) == 2
    assert system.value(run_id) == total(60)


def test_two_runs_on_one_cluster_do_not_wait_for_each_other_while_a_node_is_idle(
    system: System, shared: str
) -> None:
    wide = system.submit("wide", light_job(2, steps=40, every=10, hold_at=35), shared)
    used = system.training(wide, checkpoints=1)["attempts"][0]["nodes"]
    narrow = system.submit("narrow", light_job(1, steps=40, every=10, hold_at=35), shared)
    other = system.training(narrow)["attempts"][0]["nodes"]
    system.fault("kill-node", shared, node=system.node(shared, used[0])["instanceId"])
    run = system.training(wide, 2)
    assert seconds_from_return(system, run) < BACK_TO_STEP_SECONDS, system.story(wide)
    assert set(run["attempts"][1]["nodes"]) == set(used)
    assert other == system.api.run(narrow)["attempts"][-1]["nodes"]
    for run_id in (wide, narrow):
        system.release(run_id)
        system.ended(run_id, "Succeeded")
        assert system.value(run_id) == total(40)
