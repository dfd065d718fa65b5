"""Runs a program of examples/programs: undisturbed, and with a rank killed amid the training."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from tests.support import job_ranks
from tests.support.repository import ROOT

PROGRAMS = ROOT / "examples" / "programs"
#: Runs a program; one rank kills itself when it asks after a step whether to save.
DYING = """
import os, runpy, signal, sys
from trainyard_job import api
real = api.Job.due
def due(self, step):
    if os.environ.get("DIES") == f"{self.place.rank} {step}":
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, step)
api.Job.due = due
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start(
    run_dir: Path, name: str, world: int, *arguments: str, **variables: str
) -> list[subprocess.Popen[str]]:
    """The ranks of a program, in the run's working directory."""
    work = run_dir / "work"
    work.mkdir(parents=True, exist_ok=True)
    before = os.getcwd()
    os.chdir(work)
    try:
        program = ["-c", DYING, str(PROGRAMS / name), *arguments]
        return job_ranks.start(run_dir, program, world, **job_ranks.rendezvous(), **variables)
    finally:
        os.chdir(before)


def ended(
    run_dir: Path, name: str, world: int, *arguments: str, **variables: str
) -> list[job_ranks.Ended]:
    """The same, to its end."""
    return job_ranks.ends(start(run_dir, name, world, *arguments, **variables))


def weights(run_dir: Path) -> dict[str, Any]:
    """Of the model that a program leaves."""
    found = torch.load(run_dir / "output" / "model.pt", weights_only=True)
    return dict(found)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def resumed_is_undisturbed(
    directory: Path, name: str, *arguments: str, world: int = 2, **variables: str
) -> None:
    """Kill a rank at step 7 of 10, resume from the checkpoint of step 6, and compare."""
    arguments = ("--steps", "10", *arguments)
    variables = {"TRAINYARD_CHECKPOINT_EVERY_STEPS": "3", **variables}
    whole, cut = directory / "whole", directory / "cut"
    undisturbed = ended(whole, name, world, *arguments, **variables)
    assert [rank.code for rank in undisturbed] == [0] * world, job_ranks.told(undisturbed)
    killed = ended(cut, name, world, *arguments, DIES=f"{world - 1} 7", **variables)
    assert killed[-1].code == -9, job_ranks.told(killed)
    assert all(rank.code != 0 for rank in killed), job_ranks.told(killed)
    newest = cut / "checkpoints" / "step-000000000006-attempt-1"
    assert (newest / "manifest.json").exists(), sorted((cut / "checkpoints").iterdir())
    resumed = ended(cut, name, world, *arguments, TRAINYARD_ATTEMPT="2", **variables)
    assert [rank.code for rank in resumed] == [0] * world, job_ranks.told(resumed)
    assert (cut / "checkpoints" / "step-000000000009-attempt-2").exists(), job_ranks.told(resumed)
    assert same(weights(whole), weights(cut)), job_ranks.told(resumed)
