"""Trouble in a job: failing processes, checkpoints and programs, changed minds, many runs."""

from __future__ import annotations

import json

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, eventually, light_job, total

from trainyard_cli.problems import ApiProblem

#: Every character that any shell, template or path ever gave a meaning to.
HOSTILE = (
    "'\"`$(touch /tmp/trainyard-was-here)`; rm -rf ~ && echo pwned | tee x > y < z & {a,b} ~ ! "
    "# % ^ * ? [x] \\ \\n \t é 雪 ${HOME} $PATH %s"
)
ECHO = """
import json, os, sys
print("ARGUMENTS " + json.dumps(sys.argv[1:]))
print("VARIABLES " + json.dumps({name: os.environ[name] for name in sys.argv[1].split(",")}))
print("FILE " + json.dumps(open("data/hostile.txt", encoding="utf-8").read()))
"""


def test_a_killed_worker_process_starts_again_in_place_from_the_last_whole_checkpoint(
    system: System, shared: str
) -> None:
    run_id = system.submit("process-killed", light_job(1, steps=60, every=10, hold_at=25), shared)
    first = system.training(run_id, checkpoints=2)["attempts"][0]
    system.fault("kill-process", shared, run=run_id)
    run = system.ended(run_id, "Succeeded")
    one, two = run["attempts"]
    assert two["nodes"] == first["nodes"]
    assert two["resumedFrom"] == 20
    assert "SIGKILL" in one["reason"]
    [incident] = run["incidents"]
    assert incident["cause"] == "worker-process"
    assert incident["resumedAt"]
    assert system.value(run_id) == total(60)


@pytest.mark.parametrize("how", ["flip", "truncate"])
def test_a_damaged_newest_checkpoint_is_left_out_and_the_one_before_is_resumed_from(
    system: System, shared: str, how: str
) -> None:
    run_id = system.submit("damaged", light_job(1, steps=60, every=20, hold_at=55), shared)
    system.training(run_id, checkpoints=2)
    damaged = system.fault("corrupt-checkpoint", shared, run=run_id, how=how)
    system.fault("kill-process", shared, run=run_id)
    assert damaged["step"] == 40
    run = system.ended(run_id, "Succeeded")
    assert run["attempts"][1]["resumedFrom"] == 20, system.story(run_id)
    [rejected] = system.timeline(run_id, "CheckpointRejected")
    assert rejected["data"]["step"] == 40
    assert "will not be resumed from" in rejected["message"]
    shown = {
        (found["step"], found["attempt"]): found["status"]
        for found in system.api.checkpoints(run_id)
    }
    assert shown == {(20, 1): "whole", (40, 1): "rejected", (40, 2): "whole", (60, 2): "whole"}
    assert system.value(run_id) == total(60)
    exported = system.exported(run_id)
    assert not [key for key in exported if "step-000000000040-attempt-1" in key]
    assert [key for key in exported if "step-000000000040-attempt-2" in key]


def test_a_python_error_stops_after_it_came_twice_keeps_its_evidence_and_burns_no_money(
    system: System,
) -> None:
    job = light_job(1, steps=30, step_seconds=0.02, every=5, fail_at=13)
    run_id = system.submit("bad-batch", job, cluster_spec("bad-batch"))
    run = system.ended(run_id, "Failed", 120)
    assert len(run["attempts"]) == 2
    assert run["problem"]["code"] == "same-error"
    assert "ValueError: bad batch at step 13" in run["problem"]["detail"]
    assert "2 times at step 12" in run["problem"]["detail"]
    assert "light_trainer.py" in run["problem"]["detail"]
    assert run["export"]["state"] == "verified"
    assert run["clusterDeleted"]
    system.assert_gone(system.api.cluster(run["clusterName"]))
    for attempt in (1, 2):
        log = system.api.logs(run_id, attempt=attempt)
        assert log["source"] == "s3"
        assert "ValueError: bad batch at step 13" in log["text"]
    assert [key for key in system.exported(run_id) if "step-000000000010-attempt" in key]


def test_shell_metacharacters_in_every_string_of_a_job_arrive_as_data(
    system: System, shared: str
) -> None:
    variables = {"HOSTILE": HOSTILE, "NEWLINES": "one\ntwo\n$(three)", "EMPTY": "", "_x9": "-rf"}
    arguments = [",".join(variables), HOSTILE, "", "-rf", "--wrap=id", "a\nb", "$(id)", "#!/bin/sh"]
    job = {
        "recipe": "command", "nodes": 1, "script": "tools/echo.py", "arguments": arguments,
        "environment": variables, "files": {"tools/echo.py": ECHO, "data/hostile.txt": HOSTILE},
    }  # fmt: skip
    run_id = system.submit("hostile", job, shared, export={"enabled": False})
    run = system.ended(run_id, "Succeeded")
    log = system.api.logs(run_id)["text"].splitlines()
    said = {
        line.split(" ", 1)[0]: json.loads(line.split(" ", 1)[1])
        for line in log
        if line.split(" ", 1)[0].isupper()
    }
    assert said["ARGUMENTS"] == arguments
    assert said["VARIABLES"] == variables
    assert said["FILE"] == HOSTILE
    assert run["spec"]["job"]["arguments"] == arguments


def test_a_cancelled_run_saves_what_it_has_and_resumes_from_there(
    system: System, shared: str
) -> None:
    run_id = system.submit("cancelled", light_job(1, steps=60, every=1000, hold_at=30), shared)
    system.training(run_id)
    system.api.cancel_run(run_id)
    again = system.api.cancel_run(run_id)
    assert again["id"] == run_id
    run = system.ended(run_id, "Cancelled")
    assert len(system.timeline(run_id, "CancelRequested")) == 1
    assert run["problem"]["code"] == "cancelled"
    assert run["export"]["state"] == "verified"
    [saved] = system.whole(run_id)
    assert system.api.cancel_run(run_id)["status"] == "Cancelled"

    resumed = system.api.resume_run(run_id)
    assert resumed["life"] == 2
    run = system.ended(run_id, "Succeeded")
    assert run["attempts"][-1]["resumedFrom"] == saved["step"]
    assert system.value(run_id) == total(60)
    for refused in (system.api.resume_run, system.api.cancel_run):
        with pytest.raises(ApiProblem) as told:
            refused(run_id)
        assert (told.value.status, told.value.code) == (409, "run-finished")


def test_a_cancel_while_exporting_loses_nothing(system: System, shared: str) -> None:
    run_id = system.submit(
        "late-cancel",
        light_job(1, steps=40, step_seconds=0.01, every=1),
        shared,
        checkpoint={"keep": 100},
    )
    system.until(run_id, "the export is under way", lambda run: run["status"] == "Exporting")
    system.api.cancel_run(run_id)
    run = system.ended(run_id, "Succeeded")
    assert run["export"]["state"] == "verified"
    [late] = system.timeline(run_id, "CancelledTooLate")
    assert "Training was over" in late["message"]
    assert system.value(run_id) == total(40)


def test_two_runs_on_one_cluster_do_not_know_of_each_other(system: System, shared: str) -> None:
    good = system.submit("good", light_job(1, steps=40, every=10, hold_at=25), shared)
    bad = system.submit("bad", light_job(1, steps=40, every=10, fail_at=25), shared)
    assert system.ended(bad, "Failed")["problem"]["code"] == "same-error"
    system.release(good)
    run = system.ended(good, "Succeeded")
    assert len(run["attempts"]) == 1
    assert run["incidents"] == []
    assert system.value(good) == total(40)
    # What befalls a node is told to every run on the cluster, with the run that it met.
    own = [entry for entry in system.timeline(good) if entry.get("attempt") is not None]
    assert {entry["data"].get("runId", good) for entry in own} == {good}


@pytest.mark.long
def test_ten_runs_at_once_on_one_cluster_all_end(system: System, shared: str) -> None:
    steps = {
        system.submit(f"one-of-ten-{number}", light_job(1, steps=5 + number, every=5), shared): 5
        + number
        for number in range(10)
    }
    for run_id, count in steps.items():
        run = system.ended(run_id, "Succeeded", 150)
        assert len(run["attempts"]) == 1, system.story(run_id)
        assert system.value(run_id) == total(count)


def test_a_run_can_be_looked_at_from_every_side(system: System, shared: str) -> None:
    run_id = system.submit("looked-at", light_job(2, steps=80, every=20, hold_at=70), shared)
    run = system.training(run_id, checkpoints=1)
    live = system.api.logs(run_id, lines=5)
    assert live["source"] == "node"
    assert "from step 0" in live["text"]
    shown = eventually(
        "the run's newest sample is shown", lambda: system.api.run(run_id)["latest"], 15
    )
    assert shown["step"] > 0
    assert shown["attempt"] == 1
    lifecycle = system.api.logs(run_id, kind="lifecycle", lines=500)
    assert lifecycle["source"] == "cloudwatch"
    assert "lifecycle finished" in lifecycle["text"]
    metrics = eventually(
        "the series grow", lambda: (m := system.api.metrics(run_id))["run"] and m, 15
    )
    assert set(run["attempts"][0]["nodes"]) <= set(metrics["nodes"])
    sample = metrics["nodes"][run["attempts"][0]["nodes"][0]][-1]
    assert sample["memoryTotalBytes"] > 0
    assert sample["agent"] == "linked"
    assert all(point["at"] and point["runId"] == run_id for point in metrics["run"])
    system.release(run_id)
    system.ended(run_id, "Succeeded")
    kept = system.api.logs(run_id, lines=1)
    assert kept["source"] == "s3"
    assert "finished" in kept["text"]
    newest, *_, oldest = system.api.checkpoints(run_id)
    assert (newest["step"], oldest["step"]) == (80, 20)
    assert newest["bytes"] > 0
    page = system.api.event_page(run_id)
    assert [entry["at"] for entry in page["events"]] == sorted(
        entry["at"] for entry in page["events"]
    )
    assert page["events"][0]["type"] == "Accepted"
    assert page["events"][-1]["type"] == "Succeeded"


#: Says which variables it found, each as JSON, for the dry run is to have said them before.
VARIABLES = """
import json, os

print("FOUND " + json.dumps(dict(os.environ)), flush=True)
"""


def test_a_dry_run_says_the_variables_that_the_program_finds(system: System, shared: str) -> None:
    job = {
        "recipe": "command", "nodes": 1, "script": "say.py", "files": {"say.py": VARIABLES},
        "environment": {"OURS": "a=b", "OMP_NUM_THREADS": "3"},
    }  # fmt: skip
    spec = {"name": "says", "cluster": {"name": shared}, "job": job, "export": {"enabled": False}}
    plan = system.api.plan_run(spec)
    run_id = system.submit("says", job, shared, export={"enabled": False})
    system.ended(run_id, "Succeeded")
    (line,) = [
        line for line in system.api.logs(run_id)["text"].splitlines() if line.startswith("FOUND ")
    ]
    found = json.loads(line.removeprefix("FOUND "))
    for one in plan["environment"]:
        assert one["name"] in found, one
        if one["value"] is not None:
            assert found[one["name"]] == one["value"], one
    said = {one["name"] for one in plan["environment"]}
    assert {name for name in found if name.startswith("TRAINYARD_")} <= said | {
        "TRAINYARD_LOCAL", "TRAINYARD_NODE_NAME"
    }  # fmt: skip


def test_a_dry_run_on_the_local_cloud_says_what_the_list_says_and_costs_stay_zero(
    system: System, shared: str
) -> None:
    spec = cluster_spec("priced", workers=1)
    run = {"name": "priced", "job": light_job(1, steps=1)}
    plan = system.api.plan_run({**run, "cluster": {"spec": spec}})
    assert plan["hourlyUsd"] == 0
    assert plan["listPrice"]["hourlyUsd"] is None, "no such type is in the list"
    assert plan["listPrice"]["words"].startswith("not known: the local cloud costs nothing")
    for group in spec["instanceGroups"]:
        group["instanceType"] = "ml.g5.8xlarge"
    plan = system.api.plan_run({**run, "cluster": {"spec": spec}})
    assert plan["hourlyUsd"] == 0
    assert plan["listPrice"]["hourlyUsd"] > 0
    assert "not what the local cloud costs" in plan["listPrice"]["words"]
