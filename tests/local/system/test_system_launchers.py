"""Each launcher on two Slurm nodes trains, is killed, resumes, and ends with the same weights."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support.repository import ROOT
from tests.support.system import Json, System, eventually

PROGRAM = (ROOT / "tests/support/programs/launched.py").read_text()
LIBRARIES = {
    "torchrun": "torch",
    "mpirun": "torch",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
}
STEPS, HOLD_AT = 12, 10


def job(recipe: str, *, hold: bool, **more: Any) -> Json:
    """Two nodes with a process each; checkpoints after steps 4, 8 and 12."""
    arguments = [
        "--library",
        LIBRARIES[recipe],
        "--steps",
        str(STEPS),
        *(["--hold-at", str(HOLD_AT)] if hold else []),
    ]
    return {
        "recipe": recipe,
        "nodes": 2,
        "script": "launched.py",
        "arguments": arguments,
        "files": {"launched.py": PROGRAM},
        **more,
    }


def weights(system: System, run_id: str) -> bytes:
    """The exported final model, as written: equal bytes are equal weights."""
    key = f"{system.export_prefix(run_id)}final/model.pt"
    return bytes(system.aws("s3").get_object(Bucket=system.local["bucket"], Key=key)["Body"].read())


@pytest.fixture(scope="module")
def uninterrupted(system: System, _shared_cluster: str) -> dict[str, bytes]:
    """What nobody disturbed ends with, by library; made when it is first asked for."""
    return {}


def of_uninterrupted(system: System, cluster: str, known: dict[str, bytes], recipe: str) -> bytes:
    """torch and Accelerate take the same steps, so they end in the same weights."""
    kind = "deepspeed" if recipe == "deepspeed" else "torchrun"
    if kind not in known:
        run_id = system.submit(f"{kind}-undisturbed", job(kind, hold=False), cluster)
        run = system.ended(run_id, "Succeeded", 120)
        assert len(run["attempts"]) == 1
        known[kind] = weights(system, run_id)
    return known[kind]


@pytest.mark.parametrize(
    ("recipe", "fault"),
    [
        ("torchrun", "kill-process"),
        pytest.param("mpirun", "kill-process", marks=pytest.mark.long),
        pytest.param("accelerate", "kill-node", marks=pytest.mark.long),
        pytest.param("deepspeed", "kill-node", marks=pytest.mark.long),
    ],
)
def test_what_a_launcher_started_is_killed_resumes_and_ends_equal(
    system: System, shared: str, uninterrupted: dict[str, bytes], recipe: str, fault: str
) -> None:
    run_id = system.submit(f"{recipe}-killed", job(recipe, hold=True), shared)
    first = system.training(run_id, checkpoints=2, seconds=90)["attempts"][0]
    victim = first["nodes"][1]
    system.fault(fault, shared, run=run_id, node=victim)
    system.release(run_id)
    run = system.ended(run_id, "Succeeded", 120)
    one, two = run["attempts"]
    assert two["resumedFrom"] == 8, system.story(run_id)
    [incident] = run["incidents"]
    assert (incident["cause"], incident["node"]) == (
        "node-lost" if fault == "kill-node" else "worker-process",
        victim,
    ), one["reason"]
    assert weights(system, run_id) == of_uninterrupted(system, shared, uninterrupted, recipe)


@pytest.mark.long
def test_ranks_of_mpirun_save_when_they_are_told_to_stop(
    system: System, shared: str, uninterrupted: dict[str, bytes]
) -> None:
    run_id = system.submit("mpirun-stopped", job("mpirun", hold=True), shared)
    system.training(run_id, checkpoints=2, seconds=90)
    system.api.cancel_run(run_id)
    system.ended(run_id, "Cancelled", 120)
    saved = system.whole(run_id)[0]["step"]
    assert saved == HOLD_AT + 1, system.api.logs(run_id)["text"]
    system.release(run_id)
    system.api.resume_run(run_id)
    run = system.ended(run_id, "Succeeded", 120)
    assert run["attempts"][-1]["resumedFrom"] == saved
    assert weights(system, run_id) == of_uninterrupted(system, shared, uninterrupted, "mpirun")


def test_processes_that_would_train_models_of_their_own_fail_at_once(
    system: System, shared: str
) -> None:
    alone = job("accelerate", hold=False, environment={"ACCELERATE_USE_CPU": "false"})
    run_id = system.submit(
        "accelerate-alone", alone, shared, recovery={"sameErrorLimit": 1}, export={"enabled": False}
    )
    run = system.ended(run_id, "Failed", 120)
    assert "WrongWorldSize: Accelerate formed 1 of 2 processes" in run["problem"]["detail"]
    assert run["attempts"][0]["firstStepAt"] is None


SAY = (
    "import os, unidecode; print('SAID', os.environ['SLURMD_NODENAME'], "
    "unidecode.unidecode('déjà vu'), unidecode.__file__)\n"
)


def saying(requirement: str) -> Json:
    """A plain program on two nodes, with a package of its own."""
    own = {"kind": "venv", "requirements": [requirement]}
    return {
        "recipe": "command",
        "nodes": 2,
        "script": "say.py",
        "files": {"say.py": SAY},
        "pythonEnvironment": own,
    }


def test_a_jobs_own_environment_is_built_once_for_all_nodes_and_attempts(
    system: System, shared: str
) -> None:
    logs = []
    for name in ("environment-first", "environment-again"):
        run_id = system.submit(name, saying("unidecode==1.3.8"), shared, export={"enabled": False})
        system.ended(run_id, "Succeeded", 120)
        logs.append(system.api.logs(run_id)["text"])
    built = [len(re.findall("building venv environment", log)) for log in logs]
    said = [re.findall(r"SAID (\S+) deja vu (\S+)", log) for log in logs]
    assert built == [1, 0], logs
    assert [len({node for node, _ in found}) for found in said] == [2, 2]
    [place] = {file for found in said for _, file in found}
    assert "/fsx/" in place
    assert "/trainyard/environments/job-" in place


def test_a_requirement_that_does_not_exist_is_the_runs_problem_in_pips_words(
    system: System, shared: str
) -> None:
    run_id = system.submit(
        "environment-missing",
        saying("unidecode==99.99"),
        shared,
        recovery={"sameErrorLimit": 1},
        export={"enabled": False},
    )
    run = system.ended(run_id, "Failed", 120)
    assert "job.pythonEnvironment cannot be made" in run["problem"]["detail"]
    assert "No matching distribution found for unidecode==99.99" in run["problem"]["detail"]
    eventually(
        "the log is kept", lambda: "No matching distribution" in system.api.logs(run_id)["text"]
    )
