"""Trouble of jobs and daemons on nodes that boot: what systemd restarts, and who holds a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from demo.objects import differences
from tests.machines.conftest import Json, Machines
from tests.machines.test_machine_runs import READY_SECONDS, final_weights, spec
from tests.support.system import System, eventually

pytestmark = pytest.mark.machines

CLUSTER = "trouble"
STEPS = 150
#: Between two steps of a run to which something happens after more than a look at it.
LONG = 0.2


class Trouble:
    """One cluster of three workers; most runs use two of them."""

    def __init__(self, machines: Machines, system: System) -> None:
        self.machines, self.system = machines, system
        system.api.create_cluster(spec(CLUSTER, spares=1, nodeRecovery="None"))
        system.cluster_ready(CLUSTER, READY_SECONDS)
        undisturbed = self.submit("undisturbed", step_seconds=0.0)
        self.weights = final_weights(system, self.ended(undisturbed), STEPS)

    def submit(self, name: str, *, nodes: int = 2, step_seconds: float = 0.1) -> str:
        arguments = ["--steps", str(STEPS), "--step-seconds", str(step_seconds)]
        job = {
            "recipe": "torchrun", "nodes": nodes, "processesPerNode": 1,
            "module": "trainyard_trainers.ddp", "arguments": arguments,
        }  # fmt: skip
        return self.system.submit(name, job, CLUSTER, checkpoint={"everySeconds": 2, "keep": 5})

    def training(self, run_id: str, attempt: int = 1, checkpoints: int = 0) -> Json:
        return self.system.training(run_id, attempt, checkpoints=checkpoints, seconds=READY_SECONDS)

    def ended(self, run_id: str) -> Json:
        return self.system.ended(run_id, "Succeeded", READY_SECONDS)

    def ended_as_undisturbed(self, run_id: str, attempts: int) -> Json:
        """The run at its end, with the weights of a run that nothing disturbed."""
        run = self.ended(run_id)
        assert len(run["attempts"]) == attempts, self.system.story(run_id)
        assert differences(final_weights(self.system, run, STEPS), self.weights) == []
        return run

    def node(self, slurm_name: str) -> Json:
        return next(node for node in self.machines.nodes(CLUSTER) if node["name"] == slurm_name)

    def restarted(self, node: Json, unit: str) -> None:
        """Kill what runs of the unit; systemd starts it again."""
        before = self.machines.on(node, "systemctl", "show", "-p", "MainPID", "--value", unit)
        assert before not in ("", "0"), f"{unit} runs"
        self.machines.on(node, "kill", "-9", before)

        def again() -> bool:
            now = self.machines.on(node, "systemctl", "show", "-p", "MainPID", "--value", unit)
            return now not in ("", "0", before)

        eventually(f"{unit} runs again", again, 60)

    @contextmanager
    def job_of_a_person(self) -> Iterator[str]:
        """A job unknown to Trainyard that holds one node until the end of the block."""
        job = self.slurm(
            "sbatch", "--parsable", "--exclusive", "--nodes=1", "--chdir=/", "--output=/dev/null",
            "--wrap=sleep 600",
        )  # fmt: skip

        def runs() -> bool:
            return self.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"

        try:
            eventually(f"job {job} of a person runs", runs)
            yield job
            assert runs(), "nobody touched the person's job"
        finally:
            self.slurm("scancel", job)

    def slurm(self, program: str, *argv: str) -> str:
        """One of Slurm's programs as root runs it on the controller."""
        controller = self.machines.node(CLUSTER, "controller")
        return str(self.machines.on(controller, f"/opt/slurm/bin/{program}", *argv))


@pytest.fixture(scope="module")
def trouble(machines: Machines, system: System) -> Iterator[Trouble]:
    yield Trouble(machines, system)
    system.api.delete_cluster(CLUSTER, force=True)  # a person's job may have ended just now
    system.assert_gone(system.api.cluster(CLUSTER))


def test_a_killed_worker_process_starts_again_in_place(trouble: Trouble) -> None:
    run_id = trouble.submit("process")
    first = trouble.training(run_id, checkpoints=1)["attempts"][0]
    trouble.system.fault("kill-process", CLUSTER, run=run_id)
    run = trouble.ended_as_undisturbed(run_id, attempts=2)
    assert run["attempts"][1]["nodes"] == first["nodes"]
    assert [incident["cause"] for incident in run["incidents"]] == ["worker-process"]


def test_a_torn_newest_checkpoint_is_left_out(trouble: Trouble) -> None:
    run_id = trouble.submit("torn")
    trouble.training(run_id, checkpoints=2)
    damaged = trouble.system.fault("corrupt-checkpoint", CLUSTER, run=run_id, how="truncate")
    trouble.system.fault("kill-process", CLUSTER, run=run_id)
    run = trouble.ended_as_undisturbed(run_id, attempts=2)
    newest = trouble.system.api.checkpoints(run_id)
    of_it = [
        one["status"] for one in newest if (one["step"], one["attempt"]) == (damaged["step"], 1)
    ]
    assert of_it == ["rejected"], trouble.system.story(run_id)
    assert run["attempts"][1]["resumedFrom"] != damaged["step"]


@pytest.mark.parametrize("unit", ["trainyard-agent", "slurmd"])
def test_a_killed_daemon_of_a_worker_costs_nothing(trouble: Trouble, unit: str) -> None:
    run_id = trouble.submit(f"killed-{unit}", step_seconds=LONG)
    nodes = trouble.training(run_id)["attempts"][0]["nodes"]
    for name in nodes:
        trouble.restarted(trouble.node(name), unit)
    trouble.ended_as_undisturbed(run_id, attempts=1)
    assert trouble.system.timeline(run_id, "NodeLost") == []


@pytest.mark.parametrize("unit", ["trainyard-agent", "slurmctld"])
def test_a_killed_daemon_of_the_controller_costs_nothing(trouble: Trouble, unit: str) -> None:
    run_id = trouble.submit(f"controllers-{unit}", step_seconds=LONG)
    trouble.training(run_id, checkpoints=1)
    trouble.restarted(trouble.machines.node(CLUSTER, "controller"), unit)
    trouble.ended_as_undisturbed(run_id, attempts=1)


def test_two_runs_on_one_cluster_do_not_know_of_each_other(trouble: Trouble) -> None:
    wide, narrow = trouble.submit("wide"), trouble.submit("narrow", nodes=1)
    used = [trouble.training(run_id)["attempts"][0]["nodes"] for run_id in (wide, narrow)]
    assert not set(used[0]) & set(used[1])
    trouble.system.fault("kill-process", CLUSTER, run=narrow)
    trouble.ended_as_undisturbed(wide, attempts=1)
    assert len(trouble.ended(narrow)["attempts"]) == 2


def test_a_run_whose_spare_a_person_holds_trains_on_the_replacement(trouble: Trouble) -> None:
    with trouble.job_of_a_person() as job:
        run_id = trouble.submit("held", step_seconds=LONG)
        used = trouble.training(run_id, checkpoints=1)["attempts"][0]["nodes"]
        trouble.system.fault("kill-node", CLUSTER, node=trouble.node(used[1])["instanceId"])
        told = f"behind job {job} of root on "
        trouble.system.until(
            run_id, "it says who holds the spare", lambda run: told in run["reason"]
        )
        trouble.training(run_id, 2)
        trouble.ended_as_undisturbed(run_id, attempts=2)
