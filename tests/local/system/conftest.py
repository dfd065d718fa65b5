"""One local cloud for all whole-system tests, and one cluster for those that leave it in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repository import ROOT
from tests.support.spec_parts import cluster_spec
from tests.support.system import ENDED, System, eventually

from trainyard_local import control
from trainyard_local.nodes import processes as node_processes
from trainyard_sdk.client import Client

SHARED = "shared"


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The local cloud with template.yaml; whatever a test left running is an error when it ends.

    With TRAINYARD_STATE_DIR the one that is there is used and kept, which saves the start.
    """
    if standing := os.environ.get("TRAINYARD_STATE_DIR"):
        client = Client.from_state_dir(standing)
        yield System(Path(standing).resolve(), dict(client.connection.local or {}), client)
        return
    state_dir = tmp_path_factory.mktemp("system")
    local = control.up(
        state_dir, 0, ROOT / "template.yaml", {"HeartbeatSeconds": "2", "OrphanSeconds": "5"}
    )
    try:
        yield System(state_dir.resolve(), local, Client.from_state_dir(state_dir))
    finally:
        control.down(state_dir)
    assert node_processes.matching(node_processes.of_cloud(state_dir.resolve())) == []


@pytest.fixture(scope="session")
def _shared_cluster(system: System) -> str:
    if SHARED not in system.backend_clusters():
        inputs = ["s3://sagemaker-corpus/"]
        system.api.create_cluster(cluster_spec(SHARED, workers=2, spares=1, jobInputs=inputs))
    system.cluster_ready(SHARED)
    return SHARED


@pytest.fixture
def shared(system: System, _shared_cluster: str) -> str:
    """Name of the cluster of two workers and a spare, all at work again after the test before."""
    system.heal(_shared_cluster)
    system.workers_serve(_shared_cluster)
    return _shared_cluster


@pytest.fixture(autouse=True)
def _nothing_left(system: System) -> Iterator[None]:
    """After each test no run is active."""
    yield
    active = [run for run in system.api.runs(at_most=200) if run["status"] not in ENDED]
    for run in active:
        system.api.cancel_run(run["id"])
        eventually(
            f"run {run['id']} ends", lambda run=run: system.api.run(run["id"])["status"] in ENDED
        )
    assert not active, "\n\n".join(system.story(run["id"]) for run in active)
