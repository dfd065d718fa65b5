"""One run that is the same on every backend, and what must be true of it in the API's words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.objects import Exported, differences, verify_export, weights
from tests.conformance.adapter import Adapter
from tests.support.system import Json, System, eventually

from trainyard_local.nodes import processes
from trainyard_local.nodes.processes import Process

STEPS = 120
PROGRAM = ("--steps", str(STEPS), "--step-seconds", "0.1")
Weights = dict[str, bytes]


def trained_alone(folder: Path) -> Weights:
    """The weights that the same program ends with under plain torchrun, without Trainyard."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    command += ["-m", "trainyard_trainers.ddp", "--steps", str(STEPS)]
    environment = {**os.environ, "TRAINYARD_RUN_DIR": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {f"final/{path.name}": path.read_bytes() for path in (folder / "final").glob("*.pt")}
    assert found, f"no model lies below {folder}"
    return weights(found)


@dataclass(frozen=True)
class Stage:
    """A backend on a local cloud, and the weights that the program ends with when left alone."""

    system: System
    backend: Adapter
    undisturbed: Weights

    # -- what a person does -----------------------------------------------------------------------
    def submit(self, name: str, spec: Json | None = None, *more: str, **fields: Any) -> str:
        """Submit the run on a cluster of its own; only `cluster.spec` is the backend's."""
        job = {
            "recipe": "torchrun",
            "nodes": 2,
            "processesPerNode": 1,
            "module": "trainyard_trainers.ddp",
            "arguments": [*PROGRAM, *more],
        }
        usual = {"checkpoint": {"everySeconds": 1, "keep": 5}, "export": {"checkpoints": "all"}}
        cluster = self.backend.cluster(name) if spec is None else spec
        return self.system.submit(name, job, cluster, teardown="always", **{**usual, **fields})

    def trains(self, run_id: str, checkpoints: int = 2) -> Json:
        """The run once its first attempt trains and so many checkpoints are whole.

        The newest of them was just committed, so the next one is a second away.
        """
        run = self.system.training(run_id, checkpoints=checkpoints, seconds=120)
        known = len(self.system.whole(run_id))
        self.system.until(
            run_id, "a new checkpoint is whole", lambda _: len(self.system.whole(run_id)) > known
        )
        return run

    @contextmanager
    def standing_still(self, run: Json) -> Iterator[list[Json]]:
        """Its whole checkpoints, newest first, while its ranks make no step and no further one.

        Else a loaded machine would make some between what a story looks at and what it does.
        """
        ranks = [
            process
            for process in processes.matching(lambda env: env.get("TRAINYARD_RUN_ID") == run["id"])
            if "LOCAL_RANK" in process.environment or processes.RANK_NAME.fullmatch(process.name)
            if process.name not in processes.BESIDE_RANKS  # they end the save that has begun
        ]
        assert ranks, f"no rank of the run is there\n{self.story(run['id'])}"
        _signal(ranks, signal.SIGSTOP)
        try:
            yield eventually("all checkpoints are known", lambda: self._settled(run), 60, poll=0.5)
        finally:
            _signal(ranks, signal.SIGCONT)

    def _settled(self, run: Json) -> list[Json] | None:
        """What is known, once it is what lies there, and stays so for a moment."""
        there = self.backend.keeps(self.system, run)
        known = self.system.whole(run["id"])
        if not known or Path(known[0]["path"]).name != max(there, default=""):
            return None
        time.sleep(2)  # a save that had begun beside training ends meanwhile
        return known if self.backend.keeps(self.system, run) == there else None

    # -- what must be true ------------------------------------------------------------------------
    def ended(self, run_id: str, status: str) -> Json:
        """The run at its end: a clear reason, its cluster deleted, nothing left of it."""
        run = self.system.ended(run_id, status, 180)
        assert run["clusterDeleted"], self.story(run_id)
        assert not run["teardownRefused"], self.story(run_id)
        self.gone(run)
        return run

    def gone(self, run: Json) -> None:
        """Nothing of the run's cluster is left, as our record, AWS and this machine have it."""
        cluster = self.system.api.cluster(run["clusterName"])
        self.system.assert_gone(cluster)
        eventually(
            f"{self.backend.name} has nothing left of {cluster['name']}",
            lambda: not self.backend.left(self.system, cluster),
            15,
        )

    def trained_to_the_end(self, run: Json) -> None:
        """The export verifies byte by byte, and holds the weights of an undisturbed run."""
        exported = self.export(run)
        assert exported.last_step == STEPS, exported
        assert differences(self.undisturbed, weights(exported.final)) == []
        assert run["export"]["state"] == "verified"

    def export(self, run: Json) -> Exported:
        """What the run exported, every object as the manifest says."""
        found = verify_export(
            self.system.aws("s3"), self.system.local["bucket"], run["id"], run["objectsPrefix"]
        )
        assert not found.wrong, f"{found.wrong}\n{self.story(run['id'])}"
        return found

    def resumed(self, run: Json, cause: str) -> Json:
        """The second attempt, which went on after one incident of this cause."""
        story = self.story(run["id"])
        assert len(run["attempts"]) == 2, story
        [incident] = run["incidents"]
        assert incident["cause"] == cause, story
        assert incident["resumedAt"], story
        second: Json = run["attempts"][1]
        assert second["resumedFrom"], story
        return second

    def said(self, run_id: str, type_: str) -> list[str]:
        """The timeline's sentences of a type."""
        return [entry["message"] for entry in self.system.timeline(run_id, type_)]

    def story(self, run_id: str) -> str:
        return self.system.story(run_id)

    def until(self, run_id: str, what: str, condition: Callable[[Json], Any]) -> Json:
        return self.system.until(run_id, what, condition, 120)


def _signal(ranks: Sequence[Process], number: signal.Signals) -> None:
    for rank in ranks:
        with suppress(ProcessLookupError):
            os.kill(rank.pid, number)
