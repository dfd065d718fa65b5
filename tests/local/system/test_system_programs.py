"""Programs of somebody else, with trainyard_job and without, survive what the trainers survive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support import lost_nodes
from tests.support.repository import ROOT
from tests.support.system import Json, System

PROGRAM = (ROOT / "examples/programs/plain.py").read_text()


def job() -> Json:
    """Two nodes with two processes each; it trains until somebody ends it."""
    return {
        "nodes": 2,
        "processesPerNode": 2,
        "script": "plain.py",
        "arguments": ["--steps", "100000000"],
        "files": {"plain.py": PROGRAM},
    }


def test_a_program_with_the_library_resumes_after_a_lost_node_and_saves_when_it_is_cancelled(
    system: System, shared: str
) -> None:
    run_id = system.submit("plain-killed", job(), shared, checkpoint={"everySeconds": 1})
    first = system.training(run_id, checkpoints=1, seconds=120)["attempts"][0]
    saved = system.whole(run_id)[0]["step"]
    system.fault("kill-node", shared, run=run_id, node=first["nodes"][1])
    two = system.training(run_id, attempt=2, seconds=120)["attempts"][1]
    assert two["resumedFrom"] >= saved, system.story(run_id)
    system.api.cancel_run(run_id)
    run = system.ended(run_id, "Cancelled", 120)
    told = json.loads((system.attempt_dir(run, 2) / "progress.json").read_text())
    assert told["step"] == system.whole(run_id)[0]["step"], system.story(run_id)
    newest = max((system.checkpoints_dir(run_id)).glob("step-*"))
    names = {path.name for path in newest.iterdir()}
    assert {f"random-{rank}.pt" for rank in range(4)} < names


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "tutorial" else pytest.mark.long)
        for name in lost_nodes.PROGRAMS
    ],
)
def test_a_program_that_lost_a_node_ends_with_the_weights_of_one_that_nothing_disturbed(
    system: System, shared: str, tmp_path: Path, name: str
) -> None:
    lost_nodes.resumed_is_undisturbed(system, shared, name, tmp_path, seconds=120)
