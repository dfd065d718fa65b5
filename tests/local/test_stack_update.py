"""An older version's stack is updated: records are read, agents obeyed, and a run goes on."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.system import System, cluster_spec, eventually, light_job, total

from trainyard_cli.api.client import Client
from trainyard_local import control
from trainyard_local.nodes import processes as node_processes

REPOSITORY = Path(__file__).resolve().parents[2]
STACKS = sorted((REPOSITORY / "tests/data/stacks").glob("*.tar.xz"))
STEPS = 40


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


def test_a_run_of_an_older_version_is_finished_by_this_one(older: System) -> None:
    older.api.create_cluster(cluster_spec("made-before", workers=2, spares=1))
    older.cluster_ready("made-before")
    ended = older.submit("ended-before", light_job(steps=3), "made-before")
    older.ended(ended, "Succeeded")
    running = older.submit(
        "running", light_job(2, steps=STEPS, every=10, hold_at=25), "made-before"
    )
    older.training(running, checkpoints=1)
    before = older.api.run(ended)

    control.update(older.state_dir, REPOSITORY / "template.yaml")

    assert older.api.run(ended) == before, "a record is answered as it was"
    code = {Path(f"/proc/{pid}/cwd").resolve() for pid in older.invocations("api").workers}
    assert {path.parent.name for path in code} == {"staged-1"}, "the new code answers"
    lost = older.api.run(running)["attempts"][0]["nodes"][1]
    older.fault("kill-node", "made-before", node=lost)
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
