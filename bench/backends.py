"""How fast training goes on after a fault on each backend; it writes build/bench/backends.json.

Each round is a run of the conformance suite on a cluster of its own: train, strike between two
checkpoints, measure the next attempt's first new step, let it finish, and compare the final weights
with those of the same program under plain torchrun.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import machine, median, rounded
from bench.recovery import TROUBLE, Kind, Round, reached, summary
from demo.cloud import REPOSITORY, local_cloud
from demo.measure import attempt, newest_whole_step, recovery, seconds_between
from demo.objects import differences, weights
from tests.conformance.adapter import Adapter, adapter_of, members, settings
from tests.conformance.stage import STEPS, Stage, trained_alone
from tests.support.system import ENDED, Json, System, eventually

from trainyard_contracts import places
from trainyard_contracts.files import Progress

OUTPUT = REPOSITORY / "build/bench/backends.json"
#: ParallelCluster's own times. Those of the suite are shorter: a daemon that looks each second
#: takes part in a recovery of three, and instances that it starts share this machine's processors.
#: Hosts of training jobs take five seconds to start, so that a warm pool shows.
OWN_TIMES = {
    "TRAINYARD_LOCAL_CLUSTERMGTD_SECONDS": "60",
    "TRAINYARD_LOCAL_POWER_SECONDS": "30",
    "TRAINYARD_LOCAL_JOB_START_SECONDS": "5",
}


@dataclass(frozen=True)
class Strike(Kind):
    """A kind of fault on a backend. `queue`: what differs in the cluster's queue.

    With `boot_target` a machine boots for the next attempt, and the seconds count without that:
    from its job's submission until the machine is linked. With `keeps_all` no step may be lost.
    With `reuses` the next attempt must be on the hosts of the one before, from a warm pool.
    """

    queue: Json = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    boot_target: float | None = None
    keeps_all: bool = False
    reuses: bool = False


#: `nodes` is the backend's name here, `fault` the adapter's method that strikes.
KINDS = (
    Kind("hyperpod: node killed", "lose_node", -1, "node-lost", None, 6.0, "hyperpod"),
    Kind("hyperpod: worker killed", "kill_worker", -1, "worker-process", None, 8.0, "hyperpod"),
    Kind(
        "parallelcluster: node killed, a powered-up spare",
        "lose_node",
        -1,
        "node-lost",
        None,
        4.0,
        "parallelcluster",
    ),
    Strike(
        "parallelcluster: node killed, a machine boots for the next attempt",
        "lose_node",
        -1,
        "node-lost",
        None,
        None,
        "parallelcluster",
        queue={"min": 2, "max": 3},
        boot_target=4.0,
    ),
    Strike(
        "parallelcluster: spot notice, a powered-up spare",
        "take_back",
        -1,
        "node-lost",
        None,
        None,
        "parallelcluster",
        queue={"capacity": "spot"},
        # The notice is read up to five seconds after it was given.
        arguments=("--step-seconds", "0.4"),
        keeps_all=True,
    ),
    Kind(
        "parallelcluster: worker killed",
        "kill_worker",
        -1,
        "worker-process",
        None,
        8.0,
        "parallelcluster",
    ),
    Kind(
        "training-job: host killed, new hosts start",
        "lose_node",
        -1,
        "node-lost",
        None,
        15.0,
        "training-job",
    ),
    Strike(
        "training-job: worker killed in a warm pool",
        "kill_worker",
        -1,
        "worker-process",
        None,
        15.0,
        "training-job",
        reuses=True,
    ),
)


def play(stage: Stage, kind: Kind, number: int) -> Round:
    """One fault. Whatever goes wrong is in the round's `error`."""
    found, strike = Round(kind.name, number, load_average=os.getloadavg()[0]), as_strike(kind)
    try:
        spec = stage.backend.cluster(f"round-{number}")
        if strike.queue:
            spec["queues"] = [{**spec["queues"][0], **strike.queue}]
        found.run_id = stage.submit(f"round-{number}", spec, *strike.arguments)
        run = stage.trains(found.run_id)
        time.sleep(0.5)  # about half way to the next checkpoint, so that there is something to lose
        at = time.time()
        getattr(stage.backend, kind.fault)(stage.system, run)
        linked = linked_at(stage, found.run_id) if strike.boot_target else None
        measure(stage, found, at)
        found.boot_seconds = boot_seconds(found, at, linked)
        if strike.keeps_all:
            found.steps_lost = steps_lost(stage, found)
        if strike.reuses:
            found.reused = reused(stage, found)
    except (*TROUBLE, AssertionError) as error:
        found.error = f"{type(error).__name__}: {error}"
        give_up(stage, found)
    return found


def as_strike(kind: Kind) -> Strike:
    """A kind that asks for nothing more is a strike, too."""
    return kind if isinstance(kind, Strike) else Strike(**asdict(kind))


def linked_at(stage: Stage, run_id: str) -> float:
    """When the last of the second attempt's nodes was linked (epoch seconds).

    The controller's agent writes the address of each one into a file of the attempt.
    """
    run = stage.until(
        run_id, "attempt 2 has nodes", lambda run: (attempt(run, 2) or {}).get("nodes")
    )
    wanted = set(run["attempts"][1]["nodes"])
    hosts = stage.system.attempt_dir(run, 2) / places.HOSTS

    def linked() -> bool:
        lines = hosts.read_text().splitlines() if hosts.exists() else []
        return wanted <= {line.partition(" ")[0] for line in lines}

    eventually("all nodes of attempt 2 are linked", linked, 120, poll=0.05)
    return time.time()


def boot_seconds(found: Round, at: float, linked: float | None) -> float | None:
    """From the job's submission until the machine that boots for it is linked."""
    if linked is None or found.fault_to_submit_seconds is None:
        return None
    return round(linked - at - found.fault_to_submit_seconds, 3)


def measure(stage: Stage, found: Round, at: float) -> None:
    """What the fault at `at` cost the run, whose end is waited for."""
    run = stage.ended(found.run_id, "Succeeded")
    cost = recovery(run, number=2, fault_at=at, last_step=STEPS)
    whole = newest_whole_step(stage.system.api.checkpoints(found.run_id), attempts={1})
    found.fault_to_submit_seconds = cost.fault_to_submit_seconds
    found.fault_to_start_seconds = seconds_between(at, (attempt(run, 2) or {}).get("startedAt"))
    found.fault_to_resumed_step_seconds = cost.fault_to_resumed_step_seconds
    found.resumed_from = cost.resumed_from
    found.lost_exactly_after_last_checkpoint = whole is not None and cost.resumed_from == whole
    exported = weights(stage.export(run).final)
    found.final_weights_equal = not differences(stage.undisturbed, exported)
    found.recovered = len(run["attempts"]) == 2 and cost.complete
    found.causes = [str(incident["cause"]) for incident in run["incidents"]]


def steps_lost(stage: Stage, found: Round) -> int | None:
    """Steps that the first attempt finished and the second made again, by the trainer's file."""
    path = stage.system.attempt_dir({"id": found.run_id}, 1) / places.PROGRESS
    if found.resumed_from is None:
        return None
    return Progress.model_validate_json(path.read_text()).step - found.resumed_from


def reused(stage: Stage, found: Round) -> bool:
    """Whether AWS gave the hosts of the first attempt's job to the second's."""
    jobs = [each["jobId"] for each in stage.system.api.run(found.run_id)["attempts"]]
    pool = stage.system.aws("sagemaker").describe_training_job(TrainingJobName=jobs[0])
    return bool(pool["WarmPoolStatus"].get("ReusedByJob") == jobs[1])


def give_up(stage: Stage, found: Round) -> None:
    """Let the next round begin without this one's run and cluster."""
    try:
        run: Json = stage.system.api.run(found.run_id)
        if run["status"] not in ENDED:
            stage.system.api.cancel_run(found.run_id)
            stage.until(found.run_id, "it is cancelled", lambda run: run["status"] in ENDED)
    except (*TROUBLE, AssertionError) as error:
        print(f"could not clean up after {found.run_id}: {error}", file=sys.stderr)


def here(kinds: Sequence[Kind], report: dict[str, Any]) -> list[tuple[Kind, Adapter]]:
    """Those of a backend that there is and that this machine can run; why not is reported."""
    chosen = []
    for kind in kinds:
        known = kind.nodes in members()
        adapter = adapter_of(kind.nodes) if known else None
        lacking = adapter.missing() if adapter else "no spec can name this backend"
        if adapter is None or lacking:
            report.setdefault("leftOut", {})[kind.name] = lacking
        else:
            chosen.append((kind, adapter))
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 only if every target is reached."""
    arguments = _arguments(argv)
    report: dict[str, Any] = {"machine": machine(), "rounds": []}
    chosen = here([kind for kind in KINDS if arguments.only in kind.name], report)
    write(report, [kind for kind, _ in chosen], arguments)
    os.environ.update(settings() | OWN_TIMES)
    with local_cloud(arguments.state_dir, arguments.port) as cloud:
        system = System(cloud.state_dir.resolve(), cloud.local, cloud.api)
        expected = trained_alone(arguments.state_dir / "undisturbed")
        # Kinds take turns, so that a machine that gets slower is unfair to none of them.
        for number in range(1, arguments.rounds + 1):
            for kind, adapter in chosen:
                found = play(Stage(system, adapter, expected), kind, number)
                report["rounds"].append(asdict(found))
                print(json.dumps(asdict(found)), file=sys.stderr, flush=True)
                write(report, [kind for kind, _ in chosen], arguments)
    print(json.dumps(report["kinds"], indent=2))
    return 0 if report["reached"] else 1


def write(report: dict[str, Any], kinds: Sequence[Kind], arguments: argparse.Namespace) -> None:
    """What was measured so far; rounds that are missing count as not reached."""
    report["kinds"] = [figures(kind, report["rounds"]) for kind in kinds]
    whole = all(found["rounds"] == arguments.rounds for found in report["kinds"])
    report["reached"] = bool(kinds) and whole and all(map(as_wanted, report["kinds"]))
    report["machine"]["loadAverageAtEnd"] = list(os.getloadavg())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n")


def figures(kind: Kind, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the rounds of a kind come to, by its backend."""
    own = [Round(**found) for found in rounds if found["kind"] == kind.name]
    found, strike = summary(kind, own), as_strike(kind)
    boots = [one.boot_seconds for one in own if one.boot_seconds is not None]
    without = [
        round(one.fault_to_resumed_step_seconds - one.boot_seconds, 3)
        for one in own
        if one.boot_seconds is not None and one.fault_to_resumed_step_seconds is not None
    ]
    if strike.boot_target is not None:
        found |= {
            "medianBootSeconds": rounded(median(boots)),
            "medianWithoutBootSeconds": rounded(median(without)),
            "targetWithoutBootSeconds": strike.boot_target,
        }
    if strike.keeps_all:
        found["noStepLost"] = sum(one.steps_lost == 0 for one in own)
    if strike.reuses:
        found["reused"] = sum(one.reused is True for one in own)
    return {"backend": found.pop("nodes"), **found}


def as_wanted(found: dict[str, Any]) -> bool:
    """Whether a kind's figures reach what `reached` asks and what a strike asks besides."""
    target, value = found.get("targetWithoutBootSeconds"), found.get("medianWithoutBootSeconds")
    fast = target is None or (value is not None and value <= target)
    every = all(
        found.get(name, found["rounds"]) == found["rounds"] for name in ("noStepLost", "reused")
    )
    return reached(found) and fast and every


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.backends", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="kinds whose name has this")
    parser.add_argument("--port", type=int, default=4788)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/backends")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
