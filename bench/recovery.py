"""How fast training goes on after a fault, many times over: `make bench-recovery` writes build/bench/recovery.json.

On one cluster, for each kind of fault, N runs: train, strike between two checkpoints, measure the new attempt's submission and its
first new step, let it finish, compare the final weights with those of an undisturbed run, and give the cluster its node back.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import api, cloud_up
from bench.figures import machine, median, rounded
from demo.cloud import ON_FSX, REPOSITORY, LocalCloud, local_cloud, node_of
from demo.measure import attempt, newest_whole_step, recovery
from demo.objects import differences, verify_export, weights
from rich.console import Console
from rich.table import Table

from trainyard_cli.problems import ApiProblem, Unreachable
from trainyard_local.control import ControlError

OUTPUT = REPOSITORY / "build/bench/recovery.json"
CLUSTER = "bench"
TROUBLE = (TimeoutError, RuntimeError, LookupError, OSError, ApiProblem, Unreachable)
ENDED = ("Succeeded", "Failed", "Cancelled")
STEPS, STEP_SECONDS, CHECKPOINT_SECONDS = 100, 0.15, 2.0


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and what the issue of recovery is judged by."""

    name: str
    fault: str
    host: int
    cause: str
    submit_target: float | None
    step_target: float

    @property
    def costs_a_node(self) -> bool:
        return self.cause == "node-lost"


KINDS = (
    Kind("node killed, other worker", "kill-node", -1, "node-lost", 4.0, 12.0),
    Kind("node killed, batch host", "kill-node", 0, "node-lost", 4.0, 12.0),
    Kind("node stands still, other worker", "freeze-node", -1, "node-lost", None, 6.0),
    Kind("node stands still, batch host", "freeze-node", 0, "node-lost", None, 6.0),
    Kind("worker process killed", "kill-process", -1, "worker-process", None, 8.0),
)


@dataclass
class Round:
    """One fault and what followed. None = not seen in time."""

    kind: str
    number: int
    run_id: str = ""
    fault_to_submit_seconds: float | None = None
    fault_to_resumed_step_seconds: float | None = None
    resumed_from: int | None = None
    steps_lost: int | None = None
    lost_exactly_after_last_checkpoint: bool = False
    final_weights_equal: bool = False
    recovered: bool = False
    causes: list[str] = field(default_factory=list)
    load_average: float = 0.0
    error: str = ""


@dataclass
class Bench:
    """The rounds on one cluster."""

    cloud: LocalCloud
    console: Console
    deadline: float
    reference: dict[str, bytes] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make the cluster and train once without a fault, for the weights to compare with."""
        self.cloud.api.create_cluster(_cluster())
        self._wait("the cluster is ready", lambda: self.cloud.api.cluster(CLUSTER)["status"] == "Ready", 120)
        run = self._train_to_the_end(self._submit("reference")["id"])
        if run["status"] != "Succeeded":
            raise RuntimeError(f"the undisturbed run {run['id']} is {run['status']}: {run['reason']}")
        self.reference = self._weights(run["id"])

    def round(self, kind: Kind, number: int) -> Round:
        """One fault. Whatever goes wrong is in the round's `error`."""
        found = Round(kind.name, number, load_average=os.getloadavg()[0])
        try:
            self._play(kind, found)
        except TROUBLE as error:
            found.error = f"{type(error).__name__}: {error}"
            self._give_up(found.run_id)
        return found

    def _play(self, kind: Kind, found: Round) -> None:
        found.run_id = run_id = str(self._submit(f"round-{found.number}")["id"])
        first = self._wait("the first attempt trains and has two checkpoints", lambda: self._ready_for_a_fault(run_id), 90)
        # Strike about half way between two checkpoints, so that there is something to lose.
        time.sleep(CHECKPOINT_SECONDS / 2)
        node = str(node_of(self.cloud.api, CLUSTER, first["nodes"][kind.host])["instanceId"])
        at = self.cloud.fault(kind.fault, CLUSTER, node=node, run=run_id)
        run = self._wait("the second attempt makes a step", lambda: self._stepped(run_id, 2), 120)
        last_step = self.cloud.last_step(run_id, 1)
        run = self._train_to_the_end(run_id)
        whole = newest_whole_step(self.cloud.api.checkpoints(run_id), attempts={1})
        cost = recovery(run, number=2, fault_at=at, last_step=last_step or 0)
        found.fault_to_submit_seconds = cost.fault_to_submit_seconds
        found.fault_to_resumed_step_seconds = cost.fault_to_resumed_step_seconds
        found.resumed_from, found.steps_lost = cost.resumed_from, cost.steps_lost
        found.lost_exactly_after_last_checkpoint = whole is not None and cost.resumed_from == whole and last_step is not None
        found.final_weights_equal = bool(self.reference) and not differences(self.reference, self._weights(run_id))
        found.recovered = run["status"] == "Succeeded" and len(run["attempts"]) == 2 and cost.complete
        found.causes = [str(incident["cause"]) for incident in run["incidents"]]
        if kind.costs_a_node:
            self._give_back(node)

    def _give_back(self, instance_id: str) -> None:
        """Replace the lost node and wait until every worker serves again."""
        before = {node["instanceId"] for node in self.cloud.api.nodes(CLUSTER)}
        if instance_id in before:  # recovery itself may have asked for it already
            self.cloud.api.replace_node(CLUSTER, instance_id)
        self._wait("every node serves again", self._all_serve, 120)

    def _all_serve(self) -> bool:
        workers = [node for node in self.cloud.api.nodes(CLUSTER) if node["role"] == "worker"]
        return len(workers) == 3 and all(
            node["status"] == "Running" and node["agent"] == "linked" and node["scheduler"].startswith(("idle", "mixed", "alloc"))
            for node in workers
        )

    def _ready_for_a_fault(self, run_id: str) -> dict[str, Any] | None:
        run = self.cloud.api.run(run_id)
        if run["status"] in ENDED:
            raise RuntimeError(f"run {run_id} was {run['status']} before the fault: {run['reason']}")
        current = attempt(run, 1)
        if not current or not current["firstStepAt"] or not current["nodes"]:
            return None
        whole = [found for found in self.cloud.api.checkpoints(run_id) if found["status"] == "whole"]
        return dict(current) if len(whole) >= 2 else None

    def _stepped(self, run_id: str, number: int) -> dict[str, Any] | None:
        run: dict[str, Any] = self.cloud.api.run(run_id)
        found = attempt(run, number)
        if not (found and found["firstStepAt"]) and run["status"] in ENDED:
            raise RuntimeError(f"run {run_id} is {run['status']}: {run['reason']}")
        return run if found and found["firstStepAt"] else None

    def _train_to_the_end(self, run_id: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            run: dict[str, Any] = self.cloud.api.run(run_id)
            return run if run["status"] in ENDED else None

        found: dict[str, Any] = self._wait(f"{run_id} ends", ended, 180)
        return found

    def _submit(self, name: str) -> dict[str, Any]:
        run: dict[str, Any] = self.cloud.api.submit_run(_spec(name))
        return run

    def _weights(self, run_id: str) -> dict[str, bytes]:
        exported = verify_export(self.cloud.aws("s3"), self.cloud.local["bucket"], run_id, self.cloud.api.run(run_id)["objectsPrefix"])
        if exported.wrong:
            raise RuntimeError(f"the export of {run_id} does not verify: {exported.wrong[0]}")
        return weights(exported.final)

    def _give_up(self, run_id: str) -> None:
        try:
            if run_id and self.cloud.api.run(run_id)["status"] not in ENDED:
                self.cloud.api.cancel_run(run_id)
                self._train_to_the_end(run_id)
            self._wait("every node serves again", self._all_serve, 120)
        except TROUBLE as error:
            self.console.print(f"could not clean up after {run_id}: {error}", highlight=False)

    def _wait(self, what: str, condition: Any, seconds: float) -> Any:
        end = min(time.monotonic() + seconds, self.deadline)
        while not (found := condition()):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds:.0f} s: {what}")
            time.sleep(0.25)
        return found


def _cluster() -> dict[str, Any]:
    groups = [
        {"name": "controller", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "count": 2, "spares": 1},
    ]
    return {"name": CLUSTER, "instanceGroups": groups, **ON_FSX, "environment": {"kind": "existing"}, "nodeRecovery": "None"}


def _spec(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "cluster": {"name": CLUSTER},
        "job": {
            "nodes": 2,
            "module": "trainyard_trainers.ddp",
            "arguments": ["--steps", str(STEPS), "--step-seconds", str(STEP_SECONDS)],
        },
        "checkpoint": {"everySeconds": CHECKPOINT_SECONDS},
    }


def summary(kind: Kind, rounds: list[Round]) -> dict[str, Any]:
    """What the rounds of one kind come to."""
    submits = [found.fault_to_submit_seconds for found in rounds if found.fault_to_submit_seconds is not None]
    steps = [found.fault_to_resumed_step_seconds for found in rounds if found.fault_to_resumed_step_seconds is not None]
    return {
        "kind": kind.name,
        "rounds": len(rounds),
        "recovered": sum(found.recovered for found in rounds),
        "causes": dict(Counter(" then ".join(found.causes) or "none" for found in rounds)),
        "causeNamedRightly": sum(found.causes == [kind.cause] for found in rounds),
        "medianFaultToSubmitSeconds": rounded(median(submits)),
        "maxFaultToSubmitSeconds": rounded(max(submits, default=None)),
        "targetFaultToSubmitSeconds": kind.submit_target,
        "medianFaultToResumedStepSeconds": rounded(median(steps)),
        "maxFaultToResumedStepSeconds": rounded(max(steps, default=None)),
        "targetFaultToResumedStepSeconds": kind.step_target,
        "lostExactlyAfterLastCheckpoint": sum(found.lost_exactly_after_last_checkpoint for found in rounds),
        "finalWeightsEqual": sum(found.final_weights_equal for found in rounds),
    }


def reached(figures: dict[str, Any]) -> bool:
    """Whether a kind's figures are what they must be: all recovered, all causes right, all exact, medians within their targets."""
    everyone = figures["rounds"]
    counts = ("recovered", "causeNamedRightly", "lostExactlyAfterLastCheckpoint", "finalWeightsEqual")
    exact = all(figures[name] == everyone > 0 for name in counts)
    pairs = [
        (figures["medianFaultToSubmitSeconds"], figures["targetFaultToSubmitSeconds"]),
        (figures["medianFaultToResumedStepSeconds"], figures["targetFaultToResumedStepSeconds"]),
    ]
    return exact and all(target is None or (value is not None and value <= target) for value, target in pairs)


def main(argv: list[str] | None = None) -> int:
    """Exit status 0 only if every target is reached."""
    arguments = _arguments(argv)
    console = Console(width=None if sys.stdout.isatty() else 140)
    deadline = time.monotonic() + arguments.timeout_seconds
    report: dict[str, Any] = {"machine": machine(), "kinds": [], "rounds": []}
    try:
        _measure(arguments, console, deadline, report)
    except KeyboardInterrupt:
        report["error"] = "interrupted"
    except (*TROUBLE, ControlError) as error:
        report["error"] = f"{type(error).__name__}: {error}"
    report["kinds"] = [
        summary(kind, [Round(**found) for found in report["rounds"] if found["kind"] == kind.name]) for kind in _kinds(arguments)
    ]
    whole = all(figures["rounds"] == arguments.rounds for figures in report["kinds"])
    report["reached"] = "error" not in report and whole and all(map(reached, report["kinds"])) and fast(report)
    report["machine"]["loadAverageAtEnd"] = list(os.getloadavg())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    _show(console, report, arguments.output)
    return 0 if report["reached"] else 1


def _measure(arguments: argparse.Namespace, console: Console, deadline: float, report: dict[str, Any]) -> None:
    report["cloudUp"] = cloud_up.measure(3, arguments.port, arguments.state_dir)
    with local_cloud(arguments.state_dir, arguments.port) as cloud:
        bench = Bench(cloud, console, deadline)
        bench.prepare()
        report["api"] = api.measure(cloud, CLUSTER, arguments.samples, deadline=min(deadline, time.monotonic() + 240))
        # Kinds take turns, so that a machine that gets slower is unfair to none of them.
        for number in range(1, arguments.rounds + 1):
            for kind in _kinds(arguments):
                if time.monotonic() > deadline:
                    console.print("Out of time: the rounds that are missing count as missing.")
                    return
                found = bench.round(kind, number)
                report["rounds"].append(asdict(found))
                console.print(_line(found), highlight=False)


def _kinds(arguments: argparse.Namespace) -> list[Kind]:
    return [kind for kind in KINDS if arguments.only in kind.name]


def fast(report: dict[str, Any]) -> bool:
    """Whether the API and the local cloud are as fast as they must be."""
    if "api" not in report or "cloudUp" not in report or not report["api"]["samples"]:
        return False
    latency, up = report["api"], report["cloudUp"]
    return bool(
        latency["p50Seconds"] <= latency["targetP50Seconds"]
        and latency["p99Seconds"] <= latency["targetP99Seconds"]
        and up["medianSeconds"] <= up["targetSeconds"]
    )


def _line(found: Round) -> str:
    if found.error:
        return f"{found.number:2} {found.kind}: {found.error}"
    return (
        f"{found.number:2} {found.kind}: submitted after {found.fault_to_submit_seconds} s, first step after "
        f"{found.fault_to_resumed_step_seconds} s, {found.steps_lost} steps lost, weights equal: {found.final_weights_equal}, cause: {' then '.join(found.causes) or 'none'}"
    )


def _show(console: Console, report: dict[str, Any], output: Path) -> None:
    table = Table(title="Recovery")
    for column in ("fault", "recovered", "to sbatch (median, target)", "to first step (median, target)", "exact", "weights equal", "cause"):
        table.add_column(column)
    for figures in report["kinds"]:
        table.add_row(
            figures["kind"],
            f"{figures['recovered']} of {figures['rounds']}",
            f"{figures['medianFaultToSubmitSeconds']} s, {figures['targetFaultToSubmitSeconds'] or '-'}",
            f"{figures['medianFaultToResumedStepSeconds']} s, {figures['targetFaultToResumedStepSeconds']}",
            str(figures["lostExactlyAfterLastCheckpoint"]),
            str(figures["finalWeightsEqual"]),
            ", ".join(f"{cause}: {count}" for cause, count in figures["causes"].items()),
        )
    console.print(table)
    if "error" in report:
        console.print(f"It ended early: {report['error']}", highlight=False, markup=False)
    for name in ("api", "cloudUp"):
        if name in report:
            console.print(f"{name}: { {key: value for key, value in report[name].items() if key != 'seconds'} }", highlight=False)
    console.print(f"{'Every target is reached.' if report['reached'] else 'Not every target is reached.'} {output}", highlight=False)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description="Faults, many times over, timed.")
    parser.add_argument("--rounds", type=int, default=10, help="faults of each kind")
    parser.add_argument("--only", default="", help="kinds of fault whose name contains this")
    parser.add_argument("--samples", type=int, default=50, help="timed POST /v1/runs")
    parser.add_argument("--port", type=int, default=4784)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/recovery")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--timeout-seconds", type=float, default=3600, help="start no further round after this long")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
