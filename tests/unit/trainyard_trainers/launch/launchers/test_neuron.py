"""What Neuron's devices need, and what is refused without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.support.launching import NODES, allocation

from trainyard_trainers.launch import own_log
from trainyard_trainers.launch.launchers import CannotLaunch, neuron


# -- Neuron --------------------------------------------------------------------------------------
def test_efa_is_for_several_nodes_of_types_that_have_it(tmp_path: Path) -> None:
    many = neuron.environment(allocation(tmp_path, instanceType="ml.trn1.32xlarge"))
    small = neuron.environment(allocation(tmp_path, instanceType="ml.trn1.2xlarge"))
    alone = neuron.environment(
        allocation(tmp_path, instanceType="ml.trn1.32xlarge", nodes=NODES[:1])
    )
    assert many["FI_PROVIDER"] == "efa"
    assert "FI_PROVIDER" not in {**small, **alone}
    assert many["NEURON_COMPILE_CACHE_URL"] == str(tmp_path / "trainyard/neuron-compile-cache"), (
        "shared by all nodes and runs"
    )


def test_neuron_refuses_what_the_node_cannot_do_and_says_what_it_can(tmp_path: Path) -> None:
    with pytest.raises(
        CannotLaunch, match=r"instance type ml\.p5\.48xlarge; known are ml\.trn1\.2xlarge"
    ):
        neuron.environment(allocation(tmp_path, instanceType="ml.p5.48xlarge"))
    with pytest.raises(
        CannotLaunch,
        match=r"processesPerNode is 4, but ml\.trn1\.2xlarge has 2 NeuronCores; ask for at most 2",
    ):
        neuron.environment(allocation(tmp_path, instanceType="ml.trn1.2xlarge", processesPerNode=4))


@pytest.mark.real
def test_training_is_refused_while_compilations_failed_and_compiles_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the compiler writes its record; nothing of Neuron runs here."""
    given = allocation(tmp_path, instanceType="ml.trn1.32xlarge")
    monkeypatch.setenv(own_log.DIRECTORY, str(tmp_path))

    def stand_in(failed: int) -> None:
        record = {
            "failed": failed,
            "reason": f"{failed} of 3 graphs failed to compile" if failed else "",
            "failedModules": [],
        }
        # What it prints is read and judged, so it gets no log of its own.
        check = f"import os, sys; assert {own_log.DIRECTORY!r} not in os.environ"
        write = f"{check}; open(sys.argv[1], 'w').write({json.dumps(record)!r})"
        monkeypatch.setattr(
            neuron, "precompile_command", lambda _, path: [sys.executable, "-c", write, str(path)]
        )

    stand_in(2)
    with pytest.raises(
        CannotLaunch, match="training does not start: 2 of 3 graphs failed to compile"
    ):
        neuron.precompiled(given)
    stand_in(0)
    neuron.precompiled(given)
    stand_in(2)
    neuron.precompiled(given)  # what is compiled is compiled, also for a later attempt
    monkeypatch.undo()
    with pytest.raises(
        CannotLaunch, match=r"training does not start: .*precompile-ip-10-0-0-3\.json is missing"
    ):
        neuron.precompiled(allocation(tmp_path / "other", instanceType="ml.trn1.32xlarge"))
