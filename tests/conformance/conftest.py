"""Each story on each backend, on one local cloud for all stories of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.adapter import adapter_of, members, settings
from tests.conformance.stage import Stage, Weights, trained_alone
from tests.support.repository import ROOT
from tests.support.system import System

from trainyard_local import control
from trainyard_local.nodes import processes as node_processes
from trainyard_sdk.client import Client

PARAMETERS = {"HeartbeatSeconds": "2", "OrphanSeconds": "600"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let a story be told once for each backend of the union of specs."""
    if "stage" in metafunc.fixturenames:
        metafunc.parametrize("stage", members(), indirect=True)


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A local cloud with template.yaml; whatever is left of it is an error when it ends.

    With TRAINYARD_STATE_DIR the one that is there is used and kept.
    """
    if standing := os.environ.get("TRAINYARD_STATE_DIR"):
        client = Client.from_state_dir(standing)
        yield System(Path(standing).resolve(), dict(client.connection.local or {}), client)
        return
    state_dir = tmp_path_factory.mktemp("system")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings().items():
            patch.setenv(name, value)
        local = control.up(state_dir, 0, ROOT / "template.yaml", PARAMETERS)
    try:
        yield System(state_dir.resolve(), local, Client.from_state_dir(state_dir))
    finally:
        control.down(state_dir)
    assert node_processes.matching(node_processes.of_cloud(state_dir.resolve())) == []


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    """The weights of the same program under plain torchrun, without Trainyard."""
    return trained_alone(tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def stage(request: pytest.FixtureRequest, system: System, undisturbed: Weights) -> Stage:
    """The backend of this telling; skipped with the reason where the story cannot be."""
    backend = adapter_of(request.param)
    story = request.path.stem.removeprefix("test_")
    if story in backend.without:
        pytest.skip(f"{backend.name}: {backend.without[story]}")
    if lacking := backend.missing():
        pytest.skip(f"{backend.name}: {lacking}")
    return Stage(system, backend, undisturbed)
