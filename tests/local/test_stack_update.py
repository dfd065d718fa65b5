"""An older version's stack is updated: records are read, agents obeyed, and a run goes on."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.repository import ROOT
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System, eventually, light_job, total

from trainyard_local import control
from trainyard_local.nodes import processes as node_processes
from trainyard_sdk.client import Client

STACKS = sorted((ROOT / "tests/data/stacks").glob("*.tar.xz"))
STEPS = 40
#: What older versions showed, though only the table and the state machines need it (CHANGELOG).
NO_LONGER_SHOWN = {
    "run": {"actions", "handledFacts", "troubles", "teardownStarted"},
    "attempts": {"generation"},
    "incidents": {"factId", "errorSignature"},
}


@pytest.fixture(params=STACKS, ids=lambda path: path.name.partition(".")[0])
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    """A local cloud in which an older version is deployed."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path / "older", filter="data")
    state_dir = tmp_path / "state"
    parameters = {"HeartbeatSeconds": "2", "OrphanSeconds": "5"}
    local = control.up(state_dir, 0, tmp_path / "older/template.yaml", parameters)
    try:
        yield System(state_dir.resolve(), local, Client.from_state_dir(state_dir))
    finally:
        control.down(state_dir)
    assert node_processes.matching(node_processes.of_cloud(state_dir.resolve())) == []


def still_shown(answer: Json, of: str = "run") -> Json:
    """What this version shows of an older one's answer."""
    return {
        name: [still_shown(part, name) for part in value] if name in NO_LONGER_SHOWN else value
        for name, value in answer.items()
        if name not in NO_LONGER_SHOWN[of]
    }


def of_before(answer: Any, before: Any) -> Any:
    """The answer without the fields that older versions did not have."""
    if isinstance(answer, dict) and isinstance(before, dict):
        return {name: of_before(answer.get(name), value) for name, value in before.items()}
    if isinstance(answer, list) and isinstance(before, list) and len(answer) == len(before):
        return [of_before(*pair) for pair in zip(answer, before, strict=True)]
    return answer


def lose_node(system: System, run_id: str) -> str:
    """Kill the second node of a run's first attempt; its name."""
    lost = str(system.api.run(run_id)["attempts"][0]["nodes"][1])
    system.fault("kill-node", "made-before", node=lost)
    return lost


def test_a_run_of_an_older_version_is_finished_by_this_one(older: System) -> None:
    older.api.create_cluster(cluster_spec("made-before", workers=2, spares=1))
    older.cluster_ready("made-before")
    ended = older.submit("ended-before", light_job(2, steps=STEPS, hold_at=25), "made-before")
    older.training(ended)
    lose_node(older, ended)
    older.training(ended, 2)
    older.release(ended)
    older.ended(ended, "Succeeded")
    older.heal("made-before")
    older.workers_serve("made-before")
    running = older.submit(
        "running", light_job(2, steps=STEPS, every=10, hold_at=25), "made-before"
    )
    older.training(running, checkpoints=1)
    before = still_shown(older.api.run(ended))
    told = older.timeline(ended)

    control.update(older.state_dir, ROOT / "template.yaml")

    now = older.api.run(ended)
    assert now["latest"] is not None, "what has ended keeps its last step"
    found = of_before(now, before) | {"latest": None}
    assert found == before, "a record is answered as it was"
    assert older.timeline(ended) == told, "its facts are told as they were"
    code = {Path(f"/proc/{pid}/cwd").resolve() for pid in older.invocations("api").workers}
    assert {path.parent.name for path in code} == {"staged-1"}, "the new code answers"
    lost = lose_node(older, running)
    older.training(running, 2)
    older.release(running)
    run = older.ended(running, "Succeeded")
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost", "succeeded"]
    [incident] = run["incidents"]
    assert (incident["cause"], incident["node"]) == ("node-lost", lost)
    assert older.value(running) == total(STEPS)

    older.heal("made-before")
    again = older.submit("submitted-after", light_job(2, steps=3), "made-before")
    older.ended(again, "Succeeded")
    own = older.submit("with-a-cluster", light_job(steps=3), cluster_spec("made-after"))
    assert older.ended(own, "Succeeded")["clusterDeleted"]
    older.api.delete_cluster("made-before")
    eventually("it is gone", lambda: older.api.cluster("made-before")["status"] == "Deleted")
