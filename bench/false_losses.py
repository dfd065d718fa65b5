"""How often a node that works is taken for lost: `python -m bench.false_losses`.

One long run on nodes that boot. In each round a network that loses 5 % of all packets and delays
the rest by 300 ms for 90 s, an agent that is stopped for 20 s, and a controller that no worker
reaches for 20 s. None of them is a loss: training goes on meanwhile. It counts losses and new
attempts all the same, and writes build/bench/false_losses.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.figures import machine
from bench.recovery import CLUSTER, ENDED, PACKAGES, TROUBLE, UNREPAIRED, cluster_spec
from demo.cloud import REPOSITORY, LocalCloud, local_cloud, node_of
from demo.measure import attempt

from trainyard_local.machines import host as machine_host

OUTPUT = REPOSITORY / "build/bench/false_losses.json"
#: Enough for ten rounds of all kinds, of a tenth of a second each.
STEPS = 40_000
#: After a fault: what an agent began to believe is reported or taken back by then.
SETTLES_SECONDS = 15.0


@dataclass(frozen=True)
class Kind:
    """What passes by itself, whom it befalls and for how long."""

    name: str
    fault: str
    #: The place in the attempt's list of nodes; None is the controller.
    host: int | None
    seconds: float


KINDS = (
    Kind("5 % loss and 300 ms, other worker", "slow-link", -1, 90.0),
    Kind("5 % loss and 300 ms, batch host", "slow-link", 0, 90.0),
    Kind("agent stands still, other worker", "freeze-agent", -1, 20.0),
    Kind("agent stands still, batch host", "freeze-agent", 0, 20.0),
    Kind("controller cut off from all workers", "cut-peers", None, 20.0),
)


@dataclass
class Trial:
    """One fault that passed. `error` says why nothing can be said."""

    kind: str
    number: int
    losses: int = 0
    new_attempts: int = 0
    steps: int = 0
    load_average: float = 0.0
    error: str = ""

    @property
    def clean(self) -> bool:
        """Nothing was lost, and training went on."""
        return not (self.error or self.losses or self.new_attempts) and self.steps > 0


class Bench:
    """One long run, and what befalls its nodes."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.cloud = cloud
        cloud.api.create_cluster(cluster_spec("machines"))
        wait("the cluster is ready", self._ready, 300)
        job = {
            "nodes": 2,
            "module": "trainyard_trainers.ddp",
            "arguments": ["--steps", str(STEPS), "--step-seconds", "0.1"],
        }
        spec = {"name": "long", "cluster": {"name": CLUSTER}, "job": job,
                "checkpoint": {"everySeconds": 5, "keep": 3}}  # fmt: skip
        self.run_id = str(cloud.api.submit_run(spec)["id"])
        wait("the run trains", lambda: self._attempt()["firstStepAt"], 120)

    def trial(self, kind: Kind, number: int) -> Trial:
        """One fault of the kind. Whatever goes wrong is in the trial's `error`."""
        found = Trial(kind.name, number, load_average=os.getloadavg()[0])
        try:
            self._play(kind, found)
        except TROUBLE as error:
            found.error = f"{type(error).__name__}: {error}"
        return found

    def _play(self, kind: Kind, found: Trial) -> None:
        wait("the run trains on whole", self._whole, 120)
        before, losses, step = self._attempt(), self._losses(), self._step()
        node = self._node(before, kind.host)
        self.cloud.api.fault(kind.fault, CLUSTER, node=node, seconds=kind.seconds)
        time.sleep(kind.seconds + SETTLES_SECONDS)
        wait("every agent is linked again", self._linked, 60)
        found.losses = self._losses() - losses
        found.new_attempts = self._attempt()["number"] - before["number"]
        found.steps = self._step() - step if not found.new_attempts else 0

    def end(self) -> None:
        """The run is cancelled and the cluster goes with the cloud."""
        self.cloud.api.cancel_run(self.run_id)
        wait("the run ends", lambda: self.cloud.api.run(self.run_id)["status"] in ENDED, 120)

    def _ready(self) -> bool:
        return bool(self.cloud.api.cluster(CLUSTER)["status"] == "Ready")

    def _attempt(self) -> dict[str, Any]:
        run = self.cloud.api.run(self.run_id)
        if run["status"] in ENDED:
            raise RuntimeError(f"the run is {run['status']}: {run['reason']}")
        return dict(attempt(run, len(run["attempts"])) or {"number": 0, "firstStepAt": None})

    def _whole(self) -> bool:
        return bool(self._attempt()["firstStepAt"]) and self._linked()

    def _linked(self) -> bool:
        nodes = [node for node in self.cloud.api.nodes(CLUSTER) if node["role"] == "worker"]
        return len(nodes) == 3 and all(node["agent"] == "linked" for node in nodes)

    def _losses(self) -> int:
        return sum(one["type"] == "NodeLost" for one in self.cloud.api.events(self.run_id))

    def _step(self) -> int:
        return self.cloud.last_step(self.run_id, self._attempt()["number"]) or 0

    def _node(self, of: dict[str, Any], host: int | None) -> str:
        if host is not None:
            return str(node_of(self.cloud.api, CLUSTER, of["nodes"][host])["instanceId"])
        nodes = self.cloud.api.nodes(CLUSTER)
        return next(str(node["instanceId"]) for node in nodes if node["role"] == "controller")


def wait(what: str, condition: Callable[[], Any], seconds: float) -> None:
    """Raises TimeoutError with the words."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.25)


def summary(kind: Kind, trials: list[Trial]) -> dict[str, Any]:
    """What the trials of one kind come to."""
    return {
        "kind": kind.name,
        "trials": len(trials),
        "clean": sum(one.clean for one in trials),
        "falseLosses": sum(one.losses for one in trials),
        "newAttempts": sum(one.new_attempts for one in trials),
    }


def main(argv: list[str] | None = None) -> int:
    """Exit status 0 only if every trial was made and nothing was lost in any."""
    parser = argparse.ArgumentParser(prog="python -m bench.false_losses", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="trials of each kind")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--port", type=int, default=4785)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/false-losses")
    options = parser.parse_args(argv)
    if missing := machine_host.missing():
        print(f"false_losses: {missing[0]}. {missing[1]}", file=sys.stderr)
        return 1
    if not PACKAGES.exists():
        print("false_losses: make node_agent/packages/pip.whl comes first", file=sys.stderr)
        return 1
    chosen = [kind for kind in KINDS if options.only in kind.name]
    report: dict[str, Any] = {"machine": machine()}
    trials = measure(options, chosen)
    figures = [summary(kind, [one for one in trials if one.kind == kind.name]) for kind in chosen]
    reached = bool(figures) and all(one["clean"] == options.rounds for one in figures)
    report |= {"kinds": figures, "trials": [asdict(one) for one in trials], "reached": reached}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n")
    for one in figures:
        print(f"{one['kind']}: {one['clean']} of {options.rounds} without a loss")
    print("Nothing was lost." if reached else f"Not so: {options.output}")
    return 0 if reached else 1


def measure(options: argparse.Namespace, chosen: list[Kind]) -> list[Trial]:
    """All rounds; kinds take turns."""
    os.environ.update(UNREPAIRED)
    trials: list[Trial] = []
    with local_cloud(options.state_dir, options.port, nodes="machines") as cloud:
        bench = Bench(cloud)
        for number in range(1, options.rounds + 1):
            for kind in chosen:
                trials.append(found := bench.trial(kind, number))
                print(json.dumps(asdict(found)), flush=True)
        bench.end()
    return trials


if __name__ == "__main__":
    sys.exit(main())
