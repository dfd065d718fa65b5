"""How fast training goes on after a fault: `make bench-recovery` writes build/bench/recovery.json.

It makes one cluster of each kind of node. For each kind of fault it does N runs: train, strike
between two checkpoints, measure the new attempt's submission and its first new step, let it finish,
compare the final weights with those of an undisturbed run, and give the cluster its node back.
Faults of links and of power need nodes that boot; where the machine cannot have such nodes, it says
so and leaves these faults out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import api, cloud_up
from bench.figures import machine, median, rounded
from demo.cloud import ON_FSX, REPOSITORY, LocalCloud, local_cloud, node_of
from demo.measure import attempt, newest_whole_step, recovery, seconds_between
from demo.objects import differences, verify_export, weights
from rich.console import Console
from rich.table import Table

from trainyard.aws.session_channel import SessionChannel
from trainyard_cli.problems import ApiProblem, Unreachable
from trainyard_local.control import ControlError
from trainyard_local.machines import host as machine_host

OUTPUT = REPOSITORY / "build/bench/recovery.json"
PACKAGES = REPOSITORY / "node_agent/packages/pip.whl"
CLUSTER = "bench"
TROUBLE = (TimeoutError, RuntimeError, LookupError, OSError, ApiProblem, Unreachable)
ENDED = ("Succeeded", "Failed", "Cancelled")
STEPS, STEP_SECONDS, CHECKPOINT_SECONDS = 60, 0.1, 1.0
#: Of nodes that boot: where their image has a Python with torch.
MACHINES: dict[str, Any] = {
    "environment": {"kind": "existing", "path": "/opt/trainyard/env"},
    # What was cut off is healed here, and what was off is booted again: Trainyard gives HyperPod
    # five minutes for that ...
    "nodeRecovery": "Automatic",
}
#: ... and HyperPod does not notice within them.
UNREPAIRED = {"TRAINYARD_LOCAL_NOTICE_SECONDS": "600"}


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and how recovery from it is judged."""

    name: str
    fault: str
    host: int
    cause: str
    submit_target: float | None
    step_target: float | None
    nodes: str = "processes"
    #: Somebody else's job holds the spare; then the seconds count from the return of a node.
    return_target: float | None = None

    @property
    def costs_a_node(self) -> bool:
        return self.cause == "node-lost"


KINDS = (
    Kind("node killed, other worker", "kill-node", -1, "node-lost", 4.0, 12.0),
    Kind("node killed, batch host", "kill-node", 0, "node-lost", 4.0, 12.0),
    Kind("node stands still, other worker", "freeze-node", -1, "node-lost", None, 6.0),
    Kind("node stands still, batch host", "freeze-node", 0, "node-lost", None, 6.0),
    Kind("worker process killed", "kill-process", -1, "worker-process", None, 8.0),
    Kind(
        "node killed while another job holds the spare",
        "kill-node",
        -1,
        "node-lost",
        None,
        None,
        return_target=15.0,
    ),
    Kind("node falls silent, other worker", "cut-link", -1, "node-lost", None, 6.0, "machines"),
    Kind("node falls silent, batch host", "cut-link", 0, "node-lost", None, 6.0, "machines"),
    Kind("machine stands still, a worker", "freeze-node", -1, "node-lost", None, 6.0, "machines"),
    Kind("machine stands still, batch host", "freeze-node", 0, "node-lost", None, 6.0, "machines"),
    Kind("power cut, other worker", "kill-node", -1, "node-lost", None, 6.0, "machines"),
    Kind("power cut, batch host", "kill-node", 0, "node-lost", None, 6.0, "machines"),
)


@dataclass
class Round:
    """One fault and what followed. None = not seen in time."""

    kind: str
    number: int
    run_id: str = ""
    node: str = ""
    fault_to_loss_seconds: float | None = None
    fault_to_submit_seconds: float | None = None
    fault_to_start_seconds: float | None = None
    fault_to_resumed_step_seconds: float | None = None
    return_to_resumed_step_seconds: float | None = None
    boot_seconds: float | None = None
    resumed_from: int | None = None
    steps_lost: int | None = None
    reused: bool | None = None  # whether hosts of a warm pool were, where that is asked
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
    nodes: str
    reference: dict[str, bytes] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make the cluster and train once without a fault, for the weights to compare with."""
        self.cloud.api.create_cluster(cluster_spec(self.nodes))
        self._wait(
            "the cluster is ready",
            lambda: self.cloud.api.cluster(CLUSTER)["status"] == "Ready",
            180,
        )
        run = self._train_to_the_end(self._submit("reference")["id"])
        if run["status"] != "Succeeded":
            raise RuntimeError(
                f"the undisturbed run {run['id']} is {run['status']}: {run['reason']}"
            )
        self.reference = self._weights(run["id"])

    def round(self, kind: Kind, number: int) -> Round:
        """One fault. Whatever goes wrong is in the round's `error`."""
        found = Round(kind.name, number, load_average=os.getloadavg()[0])
        try:
            self._play(kind, found)
        except TROUBLE as error:
            found.error = f"{type(error).__name__}: {error}"
            self._give_up(kind, found)
        return found

    def _play(self, kind: Kind, found: Round) -> None:
        found.run_id = run_id = str(self._submit(f"round-{found.number}")["id"])
        first = self._wait(
            "the first attempt trains and has a checkpoint",
            lambda: self._ready_for_a_fault(run_id),
            90,
        )
        with self._job_of_a_person() if kind.return_target else nullcontext():
            # Strike about half way between two checkpoints, so that there is something to lose.
            time.sleep(CHECKPOINT_SECONDS / 2)
            found.node = node = str(
                node_of(self.cloud.api, CLUSTER, first["nodes"][kind.host])["instanceId"]
            )
            at = self.cloud.fault(kind.fault, CLUSTER, node=node, run=run_id)
            self._wait("the second attempt makes a step", lambda: self._stepped(run_id, 2), 120)
        last_step = self.cloud.last_step(run_id, 1)
        if kind.nodes == "machines":  # it comes back while the next attempt trains
            self._repair(kind, node)
        self._measure(kind, found, self._train_to_the_end(run_id), at, last_step)
        if kind.nodes == "machines":
            self._wait("every node serves again", self._all_serve, 120)
        elif kind.costs_a_node:
            self._give_back(node)

    def _measure(
        self, kind: Kind, found: Round, run: dict[str, Any], at: float, last_step: int | None
    ) -> None:
        """What the fault at `at` cost the run that is over now."""
        run_id = str(run["id"])
        whole = newest_whole_step(self.cloud.api.checkpoints(run_id), attempts={1})
        cost = recovery(run, number=2, fault_at=at, last_step=last_step or 0)
        found.fault_to_loss_seconds = self._until_lost(run_id, at)
        found.fault_to_submit_seconds = cost.fault_to_submit_seconds
        found.fault_to_start_seconds = seconds_between(at, (attempt(run, 2) or {}).get("startedAt"))
        found.fault_to_resumed_step_seconds = cost.fault_to_resumed_step_seconds
        found.return_to_resumed_step_seconds = (
            self._since_return(run) if kind.return_target else None
        )
        found.resumed_from, found.steps_lost = cost.resumed_from, cost.steps_lost
        found.lost_exactly_after_last_checkpoint = (
            whole is not None and cost.resumed_from == whole and last_step is not None
        )
        found.final_weights_equal = bool(self.reference) and not differences(
            self.reference, self._weights(run_id)
        )
        found.recovered = (
            run["status"] == "Succeeded" and len(run["attempts"]) == 2 and cost.complete
        )
        found.causes = [str(incident["cause"]) for incident in run["incidents"]]

    @contextmanager
    def _job_of_a_person(self) -> Iterator[None]:
        """Another user's job holds the spare until the end of the block."""
        job = self._on_controller(
            "sbatch",
            "--parsable",
            "--exclusive",
            "--nodes=1",
            "--output=/dev/null",
            "--wrap=sleep 600",
        )
        try:
            self._wait(
                f"job {job} runs",
                lambda: self._on_controller("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING",
                30,
            )
            yield
        finally:
            self._on_controller("scancel", job)

    def _on_controller(self, *argv: str) -> str:
        """One of Slurm's commands as a person runs it in a session on the controller."""
        controller = next(
            node for node in self.cloud.api.nodes(CLUSTER) if node["role"] == "controller"
        )
        arn = self.cloud.api.cluster(CLUSTER)["arn"]
        cluster_id = arn.rpartition("/")[2]
        target = f"sagemaker-cluster:{cluster_id}_{controller['group']}-{controller['instanceId']}"
        done = SessionChannel(self.cloud.aws("ssm")).run(
            lambda again: target, list(argv), timeout_seconds=30
        )
        if done.exit_code:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
        return done.stdout.strip()

    def _until_lost(self, run_id: str, fault_at: float) -> float | None:
        """When the controller's agent held the node for lost; None of a fault that loses none."""
        losses = [
            entry["at"] for entry in self.cloud.api.events(run_id) if entry["type"] == "NodeLost"
        ]
        return seconds_between(fault_at, losses[0]) if losses else None

    def _since_return(self, run: dict[str, Any]) -> float | None:
        returns = [
            entry["at"]
            for entry in self.cloud.api.events(run["id"])
            if entry["type"] == "NodeReturned"
        ]
        return since_return(returns, (attempt(run, 2) or {}).get("firstStepAt"))

    def _repair(self, kind: Kind, instance_id: str) -> None:
        if kind.fault == "kill-node":
            self.cloud.api.reboot_node(CLUSTER, instance_id)
        else:
            self.cloud.fault("heal-node", CLUSTER, node=instance_id)

    def _give_back(self, instance_id: str) -> None:
        """Replace the lost node and wait until every worker serves again."""
        before = {node["instanceId"] for node in self.cloud.api.nodes(CLUSTER)}
        if instance_id in before:  # recovery itself may have asked for it already
            self.cloud.api.replace_node(CLUSTER, instance_id)
        self._wait("every node serves again", self._all_serve, 120)

    def _all_serve(self) -> bool:
        workers = [node for node in self.cloud.api.nodes(CLUSTER) if node["role"] == "worker"]
        return len(workers) == 3 and all(
            node["status"] == "Running"
            and node["agent"] == "linked"
            and node["scheduler"].startswith(("idle", "mixed", "alloc"))
            for node in workers
        )

    def _ready_for_a_fault(self, run_id: str) -> dict[str, Any] | None:
        run = self.cloud.api.run(run_id)
        if run["status"] in ENDED:
            raise RuntimeError(
                f"run {run_id} was {run['status']} before the fault: {run['reason']}"
            )
        current = attempt(run, 1)
        if not current or not current["firstStepAt"] or not current["nodes"]:
            return None
        whole = [
            found for found in self.cloud.api.checkpoints(run_id) if found["status"] == "whole"
        ]
        return dict(current) if whole else None

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
        exported = verify_export(
            self.cloud.aws("s3"),
            self.cloud.local["bucket"],
            run_id,
            self.cloud.api.run(run_id)["objectsPrefix"],
        )
        if exported.wrong:
            raise RuntimeError(f"the export of {run_id} does not verify: {exported.wrong[0]}")
        return weights(exported.final)

    def _give_up(self, kind: Kind, found: Round) -> None:
        run_id = found.run_id
        try:
            if found.node and kind.nodes == "machines":
                self._repair(kind, found.node)
            if run_id and self.cloud.api.run(run_id)["status"] not in ENDED:
                self.cloud.api.cancel_run(run_id)
                self._train_to_the_end(run_id)
            if found.node and kind.nodes == "processes" and kind.costs_a_node:
                self._give_back(found.node)
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


def cluster_spec(nodes: str) -> dict[str, Any]:
    groups = [
        {"name": "controller", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
        {
            "name": "workers",
            "role": "worker",
            "instanceType": "ml.c5.xlarge",
            "count": 2,
            "spares": 1,
        },
    ]
    spec = {
        "name": CLUSTER,
        "instanceGroups": groups,
        **ON_FSX,
        "environment": {"kind": "existing"},
        "nodeRecovery": "None",
    }
    return {**spec, **(MACHINES if nodes == "machines" else {})}


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
    losses = _seen(found.fault_to_loss_seconds for found in rounds)
    submits = _seen(found.fault_to_submit_seconds for found in rounds)
    starts = _seen(found.fault_to_start_seconds for found in rounds)
    steps = _seen(found.fault_to_resumed_step_seconds for found in rounds)
    returns = _seen(found.return_to_resumed_step_seconds for found in rounds)
    return {
        "kind": kind.name,
        "nodes": kind.nodes,
        "rounds": len(rounds),
        "recovered": sum(found.recovered for found in rounds),
        "causes": dict(Counter(" then ".join(found.causes) or "none" for found in rounds)),
        "causeNamedRightly": sum(found.causes == [kind.cause] for found in rounds),
        "medianFaultToLossSeconds": rounded(median(losses)),
        "medianFaultToSubmitSeconds": rounded(median(submits)),
        "maxFaultToSubmitSeconds": rounded(max(submits, default=None)),
        "targetFaultToSubmitSeconds": kind.submit_target,
        "medianFaultToStartSeconds": rounded(median(starts)),
        "medianFaultToResumedStepSeconds": rounded(median(steps)),
        "maxFaultToResumedStepSeconds": rounded(max(steps, default=None)),
        "targetFaultToResumedStepSeconds": kind.step_target,
        "medianReturnToResumedStepSeconds": rounded(median(returns)),
        "maxReturnToResumedStepSeconds": rounded(max(returns, default=None)),
        "targetMaxReturnToResumedStepSeconds": kind.return_target,
        "lostExactlyAfterLastCheckpoint": sum(
            found.lost_exactly_after_last_checkpoint for found in rounds
        ),
        "finalWeightsEqual": sum(found.final_weights_equal for found in rounds),
    }


def since_return(returns: list[str], first_step_at: str | None) -> float | None:
    """Seconds from the last return of a node to the second attempt's first step, which came after
    it.

    None where one of them was not seen.
    """
    if first_step_at is None:
        return None
    stepped = datetime.fromisoformat(first_step_at)
    before = [at for at in map(datetime.fromisoformat, returns) if at <= stepped]
    return (stepped - max(before)).total_seconds() if before else None


def _seen(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def reached(figures: dict[str, Any]) -> bool:
    """Whether a kind's figures are as they must be.

    All runs recovered, all causes are right, all weights exact, medians within their targets.
    """
    everyone = figures["rounds"]
    counts = (
        "recovered",
        "causeNamedRightly",
        "lostExactlyAfterLastCheckpoint",
        "finalWeightsEqual",
    )
    exact = all(figures[name] == everyone > 0 for name in counts)
    pairs = [
        (figures["medianFaultToSubmitSeconds"], figures["targetFaultToSubmitSeconds"]),
        (figures["medianFaultToResumedStepSeconds"], figures["targetFaultToResumedStepSeconds"]),
        (figures["maxReturnToResumedStepSeconds"], figures["targetMaxReturnToResumedStepSeconds"]),
    ]
    return exact and all(
        target is None or (value is not None and value <= target) for value, target in pairs
    )


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
        summary(kind, [Round(**found) for found in report["rounds"] if found["kind"] == kind.name])
        for kind in kinds(arguments, report)
    ]
    whole = all(figures["rounds"] == arguments.rounds for figures in report["kinds"])
    report["reached"] = (
        "error" not in report and whole and all(map(reached, report["kinds"])) and fast(report)
    )
    report["machine"]["loadAverageAtEnd"] = list(os.getloadavg())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    _show(console, report, arguments.output)
    return 0 if report["reached"] else 1


def _measure(
    arguments: argparse.Namespace, console: Console, deadline: float, report: dict[str, Any]
) -> None:
    if missing := left_out(arguments):
        report["leftOut"] = missing
        console.print(f"Left out: {missing}.", highlight=False)
    asked = kinds(arguments, report)
    if any(kind.nodes == "processes" for kind in asked):
        report["cloudUp"] = cloud_up.measure(3, arguments.port, arguments.state_dir)
    os.environ.update(UNREPAIRED)
    for nodes in ("processes", "machines"):
        if chosen := [kind for kind in asked if kind.nodes == nodes]:
            with local_cloud(arguments.state_dir, arguments.port, nodes=nodes) as cloud:
                _play_all(chosen, Bench(cloud, console, deadline, nodes), arguments, report)


def _play_all(
    chosen: list[Kind], bench: Bench, arguments: argparse.Namespace, report: dict[str, Any]
) -> None:
    bench.prepare()
    if bench.nodes == "processes":
        report["api"] = api.measure(
            bench.cloud,
            CLUSTER,
            arguments.samples,
            deadline=min(bench.deadline, time.monotonic() + 240),
        )
    # Kinds take turns, so that a machine that gets slower is unfair to none of them.
    for number in range(1, arguments.rounds + 1):
        for kind in chosen:
            if time.monotonic() > bench.deadline:
                bench.console.print("Out of time: the rounds that are missing count as missing.")
                return
            found = bench.round(kind, number)
            report["rounds"].append(asdict(found))
            bench.console.print(_line(found), highlight=False)


def left_out(arguments: argparse.Namespace) -> str | None:
    """The kinds of fault that were asked for and cannot be here, why, and what to do about it."""
    missing = machine_host.missing()
    if missing is None and not PACKAGES.exists():
        missing = (
            "the agent's packages are not built",
            "make node_agent/packages/pip.whl builds them",
        )
    if arguments.nodes == "processes" or missing is None:
        return None
    names = [
        kind.name for kind in KINDS if kind.nodes == "machines" and arguments.only in kind.name
    ]
    return f"{', '.join(names)}: {'. '.join(missing)}"


def kinds(arguments: argparse.Namespace, report: dict[str, Any]) -> list[Kind]:
    """Those that were asked for and can be."""
    wanted = ("processes", "machines") if arguments.nodes == "both" else (arguments.nodes,)
    there = [nodes for nodes in wanted if nodes == "processes" or "leftOut" not in report]
    return [kind for kind in KINDS if arguments.only in kind.name and kind.nodes in there]


def fast(report: dict[str, Any]) -> bool:
    """Whether the API and the local cloud are as fast as they must be, where they were measured."""
    latency, up = report.get("api"), report.get("cloudUp")
    if latency is not None and (
        not latency["samples"]
        or latency["p50Seconds"] > latency["targetP50Seconds"]
        or latency["p99Seconds"] > latency["targetP99Seconds"]
    ):
        return False
    return up is None or bool(up["medianSeconds"] <= up["targetSeconds"])


def _line(found: Round) -> str:
    if found.error:
        return f"{found.number:2} {found.kind}: {found.error}"
    times = {
        "lost": found.fault_to_loss_seconds,
        "submitted": found.fault_to_submit_seconds,
        "started": found.fault_to_start_seconds,
        "first step": found.fault_to_resumed_step_seconds,
    }
    told = ", ".join(
        f"{what} after {seconds} s" for what, seconds in times.items() if seconds is not None
    )
    since = (
        f" ({found.return_to_resumed_step_seconds} s after a node's return)"
        if found.return_to_resumed_step_seconds is not None
        else ""
    )
    return (
        f"{found.number:2} {found.kind}: {told}{since}, {found.steps_lost} steps lost, weights "
        f"equal: {found.final_weights_equal}, "
        f"cause: {' then '.join(found.causes) or 'none'}"
    )


def _targets(figures: dict[str, Any]) -> str:
    """What its medians must be; from a node's return it is the longest that counts."""
    submit, step, back = (
        figures[f"target{name}Seconds"]
        for name in ("FaultToSubmit", "FaultToResumedStep", "MaxReturnToResumedStep")
    )
    parts = [f"submitted {submit}" if submit else "", f"first step {step}" if step else ""]
    seen = figures["maxReturnToResumedStepSeconds"]
    parts += [
        f"{back} from a return (longest: {'none seen' if seen is None else seen})" if back else ""
    ]
    return ", ".join(filter(None, parts))


def _show(console: Console, report: dict[str, Any], output: Path) -> None:
    table = Table(title="Recovery: seconds from the fault, medians")
    for column in (
        "fault",
        "recovered",
        "lost",
        "submitted",
        "started",
        "first step",
        "target",
        "exact",
        "weights equal",
        "cause",
    ):
        table.add_column(column)
    for figures in report["kinds"]:
        stages = (
            figures[f"medianFaultTo{stage}Seconds"]
            for stage in ("Loss", "Submit", "Start", "ResumedStep")
        )
        table.add_row(
            figures["kind"],
            f"{figures['recovered']} of {figures['rounds']}",
            *("-" if seconds is None else f"{seconds:.2f}" for seconds in stages),
            _targets(figures),
            str(figures["lostExactlyAfterLastCheckpoint"]),
            str(figures["finalWeightsEqual"]),
            ", ".join(f"{cause}: {count}" for cause, count in figures["causes"].items()),
        )
    console.print(table)
    if "error" in report:
        console.print(f"It ended early: {report['error']}", highlight=False, markup=False)
    for name in ("api", "cloudUp"):
        if name in report:
            figures = {key: value for key, value in report[name].items() if key != "seconds"}
            console.print(f"{name}: {figures}", highlight=False)
    console.print(
        f"{'Every' if report['reached'] else 'Not every'} target is reached. {output}",
        highlight=False,
    )


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.recovery", description="Faults, many times over, timed."
    )
    parser.add_argument("--rounds", type=int, default=10, help="faults of each kind")
    parser.add_argument(
        "--nodes",
        choices=("both", "processes", "machines"),
        default="both",
        help="kinds of node (machines: as root)",
    )
    parser.add_argument("--only", default="", help="kinds of fault whose name contains this")
    parser.add_argument("--samples", type=int, default=50, help="timed POST /v1/runs")
    parser.add_argument("--port", type=int, default=4784)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/recovery")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument(
        "--timeout-seconds", type=float, default=3600, help="start no further round after this long"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
