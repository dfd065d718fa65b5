"""One run through cuts that are no loss: nothing is lost, and who comes back changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from demo.objects import differences
from tests.machines.conftest import Json, Machines, cloud_of_machines, system_of
from tests.machines.test_machine_runs import READY_SECONDS, final_weights, spec
from tests.support.system import ENDED, System, eventually

from trainyard_contracts.files import Progress

#: Each test has one trial of up to 90 s; the first makes the cluster.
pytestmark = pytest.mark.machines

#: Of a tenth of a second each: enough to train through every trial here.
STEPS = 1600
WORKERS = 3
TRIAL_SECONDS = 20.0
LONG_SECONDS = 90.0
#: A node that is back is linked, cleared and given back to Slurm.
RETURN_SECONDS = 60.0


class Trials:
    """One long run on a cluster of its own, and what is done to its nodes."""

    def __init__(self, machines: Machines, system: System, name: str, steps: int) -> None:
        self.machines, self.system, self.cluster, self.steps = machines, system, name, steps
        # What is healed here comes back by itself: nobody is to replace it meanwhile.
        system.api.create_cluster({**spec(name, spares=WORKERS - 2), "nodeRecovery": "Automatic"})
        system.cluster_ready(name, READY_SECONDS)
        self.run_id = self.submit(0.1)
        system.training(self.run_id, checkpoints=2, seconds=READY_SECONDS)

    def submit(self, step_seconds: float) -> str:
        arguments = ["--steps", str(self.steps), "--step-seconds", str(step_seconds)]
        job = {
            "recipe": "torchrun",
            "nodes": 2,
            "processesPerNode": 1,
            "module": "trainyard_trainers.ddp",
            "arguments": arguments,
        }
        return self.system.submit(
            self.cluster, job, self.cluster, checkpoint={"everySeconds": 2, "keep": 5}
        )

    @property
    def attempt(self) -> Json:
        return dict(self.system.api.run(self.run_id)["attempts"][-1])

    def step(self) -> int:
        (path,) = self.machines.state_dir.glob(
            f"fsx/*/trainyard/runs/{self.run_id}/attempts/{self.attempt['number']}/progress.json"
        )
        return Progress.model_validate_json(path.read_bytes()).step

    def advances(self, seconds: float = 60.0) -> None:
        before = self.step()
        eventually("training goes on", lambda: self.step() > before, seconds)

    def node(self, slurm_name: str) -> Json:
        return next(
            node for node in self.machines.nodes(self.cluster) if node["name"] == slurm_name
        )

    @property
    def controller(self) -> Json:
        return self.machines.node(self.cluster, "controller")

    def loses_nothing(self, kind: str, node: Json, seconds: float, *, away: str = "") -> None:
        """The fault passes by itself."""
        with self.losing_nothing(away):
            ends = time.monotonic() + seconds
            self.machines.fault(kind, self.cluster, node, seconds=seconds)
            eventually(f"{kind} is over", lambda: time.monotonic() > ends, seconds + 1)

    @contextmanager
    def losing_nothing(self, away: str = "") -> Iterator[None]:
        """No node or attempt is lost in the block and after it; one may be `away` all the time."""
        before, losses = self.attempt, len(self.losses())
        yield
        self.advances()
        self.all_linked(away)
        assert len(self.losses()) == losses, self.system.story(self.run_id)
        assert self.attempt["number"] == before["number"], self.system.story(self.run_id)
        assert self.attempt["nodes"] == before["nodes"]

    def losses(self) -> list[Json]:
        return self.system.timeline(self.run_id, "NodeLost")

    def all_linked(self, away: str) -> None:
        def linked() -> bool:
            return all(
                node["agent"] == "linked"
                for node in self.system.api.nodes(self.cluster)
                if node["name"] != away
            )

        eventually("every agent is linked", linked, RETURN_SECONDS)

    def returned(self, slurm_name: str, since: datetime) -> bool:
        found = [
            line
            for line in self.system.timeline(self.run_id, "NodeReturned")
            if slurm_name in line["message"]
        ]
        return any(datetime.fromisoformat(line["at"]) > since for line in found)

    def cut(self, kind: str, seconds: float) -> tuple[Json, str, datetime]:
        """Cut the link of rank 1's node like that for so long; the attempt before, node, time."""
        before = self.attempt
        lost, at = before["nodes"][1], datetime.now().astimezone()
        self.machines.fault(kind, self.cluster, self.node(lost), seconds=seconds)
        self.system.training(self.run_id, attempt=before["number"] + 1, seconds=READY_SECONDS)
        assert lost not in self.attempt["nodes"]
        return before, lost, at

    def comes_back_and_touches_nothing(
        self, before: Json, lost: str, at: datetime, seconds: float
    ) -> None:
        """The node that was cut off serves again without old ranks, and the new attempt goes on."""
        eventually(f"{lost} is back", lambda: self.returned(lost, at), seconds + RETURN_SECONDS)
        left = self.machines.on(self.node(lost), "pgrep", "-af", "trainyard_trainers")
        assert left == "", f"of attempt {before['number']} this is left on {lost}"
        self.advances()
        assert self.attempt["number"] == before["number"] + 1, self.system.story(self.run_id)
        (fence,) = self.machines.state_dir.glob(f"fsx/*/trainyard/runs/{self.run_id}/fence")
        assert fence.read_text().strip() == str(before["number"] + 1)
        submitted = datetime.fromisoformat(self.attempt["submittedAt"])
        late = [
            found for found in self.system.api.checkpoints(self.run_id)
            if found["attempt"] <= before["number"]
            and datetime.fromisoformat(found["committedAt"]) > submitted
        ]  # fmt: skip
        assert late == [], "a checkpoint was committed with an old fence"

    def delete(self) -> None:
        if self.system.api.run(self.run_id)["status"] not in ENDED:
            self.system.api.cancel_run(self.run_id)
            eventually(
                "the run ends",
                lambda: self.system.api.run(self.run_id)["status"] in ENDED,
                READY_SECONDS,
            )
        self.system.api.delete_cluster(self.cluster)
        self.system.assert_gone(self.system.api.cluster(self.cluster))

    def ends_as_if_nothing_had_happened(self, attempts: int) -> None:
        run = self.system.ended(self.run_id, "Succeeded", READY_SECONDS)
        assert len(run["attempts"]) == attempts, self.system.story(self.run_id)
        assert [incident["cause"] for incident in run["incidents"]] == ["node-lost"] * (
            attempts - 1
        )
        undisturbed = self.system.ended(self.submit(0.0), "Succeeded", READY_SECONDS)
        assert (
            differences(
                final_weights(self.system, run, self.steps),
                final_weights(self.system, undisturbed, self.steps),
            )
            == []
        )


@contextmanager
def unnoticed_cloud(state_dir: Path) -> Iterator[Machines]:
    """A local cloud whose HyperPod notices silent nodes later than any trial lasts."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRAINYARD_LOCAL_NOTICE_SECONDS", "3600")
        with cloud_of_machines(state_dir) as machines:
            yield machines


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with unnoticed_cloud(tmp_path_factory.mktemp("silence")) as machines:
        made = Trials(machines, system_of(machines), "silence", STEPS)
        yield made
        made.delete()


def test_an_agent_that_stands_still_for_twenty_seconds_loses_nothing(trials: Trials) -> None:
    trials.loses_nothing("freeze-agent", trials.node(trials.attempt["nodes"][0]), TRIAL_SECONDS)


def test_a_controller_that_is_cut_off_from_all_workers_for_twenty_seconds_loses_nothing(
    trials: Trials,
) -> None:
    trials.loses_nothing("cut-peers", trials.controller, TRIAL_SECONDS)
    told = [line["message"] for line in trials.system.timeline(trials.run_id, "AgentSilent")]
    assert not [
        message
        for message in told
        if "its Slurm daemon answers" in message and trials.attempt["nodes"][1] in message
    ]


def test_a_bus_out_of_reach_for_twenty_seconds_loses_nothing_and_what_happened_is_told_afterwards(
    trials: Trials,
) -> None:
    began = datetime.now().astimezone()
    trials.loses_nothing("cut-aws", trials.controller, TRIAL_SECONDS)
    middle = began.timestamp() + TRIAL_SECONDS / 2

    def told() -> bool:
        found = trials.system.api.checkpoints(trials.run_id)
        return any(
            began.timestamp() < datetime.fromisoformat(line["committedAt"]).timestamp() < middle
            for line in found
        )

    eventually("a checkpoint of the time without a bus is told", told, RETURN_SECONDS)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("cut-link", 5.0),
        ("cut-link", TRIAL_SECONDS),
        ("lose-outgoing", 10.0),
        ("lose-incoming", TRIAL_SECONDS),
        ("freeze-node", TRIAL_SECONDS),
    ],
)
def test_a_node_that_was_away_and_is_back_writes_nothing_and_kills_nothing(
    trials: Trials, kind: str, seconds: float
) -> None:
    trials.comes_back_and_touches_nothing(*trials.cut(kind, seconds), seconds)


def test_ninety_seconds_of_a_bad_network_lose_nothing_while_another_nodes_link_is_cut_as_long(
    trials: Trials,
) -> None:
    before, lost, at = trials.cut("cut-link", LONG_SECONDS)
    trials.loses_nothing(
        "slow-link", trials.node(trials.attempt["nodes"][1]), LONG_SECONDS, away=lost
    )
    trials.comes_back_and_touches_nothing(before, lost, at, LONG_SECONDS)


def test_only_what_was_cut_off_cost_an_attempt_and_the_weights_are_an_undisturbed_runs(
    trials: Trials,
) -> None:
    trials.ends_as_if_nothing_had_happened(attempts=7)
