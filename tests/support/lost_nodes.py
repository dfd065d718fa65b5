"""Programs that people bring, on two nodes of which one is lost amid the training.

What is left at the end must be what is left when nothing happens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests.support import job_examples, job_ranks
from tests.support.repository import ROOT
from tests.support.system import Json, System

from trainyard_sdk import downloads

HELD, WITHOUT_GPU = (
    ROOT / "tests/support/programs" / name for name in ("held.py", "without_gpu.py")
)
TUTORIAL = ROOT / "tests/support/programs/trained_on_gpus.py"
if "DDP_TUTORIAL" in os.environ:  # that of pytorch/examples, where somebody has it
    TUTORIAL = Path(os.environ["DDP_TUTORIAL"]) / "multigpu_torchrun.py"
SNAPSHOT = "snapshot.pt"
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Program:
    """What somebody brings, and how it is run.

    `chain` are the program and what runs it. `on_nodes` and `on_one` are arguments that only two
    nodes, or the two processes of one, are given.
    """

    chain: tuple[Path, ...]
    arguments: tuple[str, ...] = ("--steps", "12")
    recipe: str = "torchrun"
    on_nodes: tuple[str, ...] = ()
    on_one: tuple[str, ...] = ()
    held_at: int = 10
    checkpoint: Json = field(default_factory=lambda: {"everySteps": 4})
    newest: int = 8
    """What it resumes from: the step, or the tutorial's epoch."""

    @property
    def watched(self) -> bool:
        return "watch" in self.checkpoint

    def job(self) -> Json:
        """Two nodes with a process each; the second stands still in its first attempt."""
        files = [HELD, *self.chain, *TUTORIAL.parent.glob("datautils.py")]
        names = [path.name for path in self.chain]
        return {
            "recipe": self.recipe,
            "nodes": 2,
            "script": HELD.name,
            "arguments": [str(self.held_at), *names, *self.arguments, *self.on_nodes],
            "files": {path.name: path.read_text() for path in files},
        }


def example(name: str, *arguments: str, **more: Any) -> Program:
    """One of examples/programs, which saves with trainyard_job after each fourth step."""
    return Program((job_examples.PROGRAMS / name,), ("--steps", "12", *arguments), **more)


#: The tutorial's way takes 32 steps an epoch and saves after each: the hold is in its fourth.
PROGRAMS = {
    "tutorial": Program(
        (WITHOUT_GPU, TUTORIAL),
        ("6", "1"),
        held_at=106,
        checkpoint={"watch": {"pattern": SNAPSHOT}},
        newest=2,
    ),
    "hugging-face": example("hugging_face.py", "--save-steps", "100"),
    "accelerate": example("accelerate_states.py", recipe="accelerate"),
    "lightning": example(
        "lightning_module.py", on_nodes=("--nodes", "2"), on_one=("--devices", "2")
    ),
    "deepspeed": example("deepspeed_zero.py", recipe="deepspeed"),
}


@contextmanager
def undisturbed(program: Program, directory: Path) -> Iterator[Callable[[], Weights]]:
    """The same program in two processes of this machine, which train beside the run.

    What is yielded waits for their end.
    """
    command = ["0", *map(str, program.chain), *program.arguments, *program.on_one]
    variables = {"TRAINYARD_ATTEMPT": "1", "PYTHONPATH": str(TUTORIAL.parent)}
    ranks = job_examples.start(directory, str(HELD), 2, *command, **variables)

    def ended() -> Weights:
        found = job_ranks.ends(ranks)
        assert [rank.code for rank in found] == [0, 0], found
        return weights(directory / (f"work/{SNAPSHOT}" if program.watched else "output/model.pt"))

    try:
        yield ended
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def weights(path: Path) -> Weights:
    found = torch.load(path, weights_only=True)
    return dict(found.get("MODEL_STATE", found))


def resumed_is_undisturbed(
    system: System, cluster: str, name: str, directory: Path, *, seconds: float
) -> None:
    """Its run loses a node, and ends as if nothing had happened."""
    program = PROGRAMS[name]
    with undisturbed(program, directory / "undisturbed") as expected:
        run = lose(system, cluster, name, seconds)
        found = downloaded(system, run["id"], program, directory / "downloaded")
        wanted = expected()
    print(f"{name}: resumed from {program.newest}; {difference(found, wanted)} is the difference")
    assert job_examples.same(found, wanted), (found, wanted)


def lose(system: System, cluster: str, name: str, seconds: float) -> Json:
    """Lose a node when the newest checkpoint is known; the run at its end."""
    program = PROGRAMS[name]
    run_id = system.submit(f"{name}-lost", program.job(), cluster, checkpoint=program.checkpoint)
    held = f"the second rank is held, and the checkpoint of {program.newest} is whole"
    run = system.until(run_id, held, lambda run: is_held(system, run, program), seconds)
    [first] = run["attempts"]
    victim = system.node(cluster, first["nodes"][1])
    if program.watched:  # as a save leaves it in which the node is lost
        snapshot = system.run_dir(run_id) / "work" / SNAPSHOT
        snapshot.write_bytes(snapshot.read_bytes()[:-1000])
    system.fault("kill-node", cluster, node=victim["instanceId"])
    run = system.ended(run_id, "Succeeded", seconds)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost", "succeeded"]
    [incident] = run["incidents"]
    assert (incident["cause"], incident["node"]) == ("node-lost", first["nodes"][1])
    assert_resumed(system, run, program)
    return run


def difference(one: Weights, other: Weights) -> float:
    """The largest of any weight's."""
    return max(float((one[name] - other[name]).abs().max()) for name in other)


def is_held(system: System, run: Json, program: Program) -> bool:
    held = system.attempt_dir(run, 1) / "held"
    return held.exists() and newest(system, run["id"], program) == program.newest


def newest(system: System, run_id: str, program: Program) -> int | None:
    """What the newest whole checkpoint is of: the step, or the tutorial's epoch."""
    whole = system.whole(run_id)
    if not whole or not program.watched:
        return int(whole[0]["step"]) if whole else None
    copy = system.run_dir(run_id) / whole[0]["path"] / "work" / SNAPSHOT
    return int(torch.load(copy, weights_only=True)["EPOCHS_RUN"])


def assert_resumed(system: System, run: Json, program: Program) -> None:
    story = system.story(run["id"])
    if not program.watched:
        assert run["attempts"][1]["resumedFrom"] == program.newest, story
        return
    [restored] = system.timeline(run["id"], "CheckpointRestored")
    assert restored["data"]["source"] == f"work/{SNAPSHOT}", story
    log = system.api.logs(run["id"], attempt=2, lines=1000)["text"]
    resumed = rf"Resuming .*[Ee]poch {program.newest}\b"
    assert re.search(resumed, log), f"{story}\n{log}"


def downloaded(system: System, run_id: str, program: Program, directory: Path) -> Weights:
    """Of the final model, as the owner gets it."""
    key = f"working/{SNAPSHOT}" if program.watched else "output/model.pt"
    downloads.download(
        system.api, run_id, pattern=key, to=directory, force=False, told=lambda *_: None
    )
    return weights(directory / key)
