"""Commands go to the controller's target, which is remembered until it is not connected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import pytest
from tests.support.spec_parts import ON_FSX

from trainyard.aws.run_commands import SessionCommands
from trainyard.domain import errors
from trainyard.domain.records import Cluster
from trainyard.outside.commands import CommandResult
from trainyard_contracts.cluster_specs import read_cluster_spec

T0 = datetime(2026, 11, 20, tzinfo=timezone.utc)
SPEC = read_cluster_spec({
    "name": "demo",
    **ON_FSX,
    "instanceGroups": [
        {"name": "head", "role": "controller", "instanceType": "ml.m5.xlarge", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.m5.xlarge", "count": 1},
    ],
})  # fmt: skip
CLUSTER = Cluster(
    name="demo",
    spec=SPEC,
    created_at=T0,
    updated_at=T0,
    arn="arn:aws:sagemaker:us-east-1:1:cluster/abcdefghijkl",
)


class Channel:
    """Runs nothing; the node is not connected as often as `misses` says."""

    def __init__(self, misses: int = 0, result: CommandResult | None = None) -> None:
        self.result = result or CommandResult(0, "{}", "")
        self.misses, self.targets, self.argv = misses, list[str](), list[str]()

    def run(
        self, target: Callable[[bool], str], argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        self.argv = list(argv)
        self.targets.append(target(False))
        for _ in range(self.misses):
            self.targets.append(target(True))
        return self.result


class Targets:
    """A backend that names another target each time, and none after `count`."""

    def __init__(self, count: int = 9) -> None:
        self.asked, self.count = 0, count

    def __call__(self, cluster: Cluster) -> str | None:
        self.asked += 1
        return None if self.asked > self.count else f"target-{self.asked}"


def test_a_program_of_ours_is_named_by_its_absolute_path_and_runs_as_root() -> None:
    channel = Channel()
    SessionCommands(channel, Targets()).run(
        CLUSTER, ["trainyard-agent", "status", "--run", "r; x"], timeout_seconds=5
    )  # type: ignore[arg-type]
    assert channel.argv == [
        "sudo",
        "-n",
        "/opt/trainyard/bin/trainyard-agent",
        "status",
        "--run",
        "r; x",
    ]
    assert channel.targets == ["target-1"]


def test_a_session_whose_user_may_not_become_root_says_what_to_change() -> None:
    channel = Channel(result=CommandResult(1, "", "sudo: a password is required\n"))
    with pytest.raises(
        errors.CommandFailed,
        match=r"sudo is refused on the controller of .*: sudo: a password is required",
    ) as caught:
        SessionCommands(channel, Targets()).run(
            CLUSTER, ["trainyard-agent", "nodes"], timeout_seconds=5
        )  # type: ignore[arg-type]
    assert "Run As" in caught.value.next_step


def test_the_controller_is_looked_up_once_and_again_when_it_is_not_connected() -> None:
    targets = Targets()
    commands = SessionCommands(Channel(), targets)  # type: ignore[arg-type]
    for _ in range(3):
        commands.run(CLUSTER, ["trainyard-agent"], timeout_seconds=5)
    assert targets.asked == 1
    moved = Channel(misses=1)
    commands._channel = moved  # type: ignore[assignment]
    commands.run(CLUSTER, ["trainyard-agent"], timeout_seconds=5)
    assert [target[-1] for target in moved.targets] == ["1", "2"]


def test_a_cluster_without_controller_or_arn_is_unreachable_for_now() -> None:
    commands = SessionCommands(Channel(), Targets(count=0))  # type: ignore[arg-type]
    for cluster in (CLUSTER, CLUSTER.model_copy(update={"arn": None})):
        with pytest.raises(errors.NodeUnreachable) as caught:
            commands.run(cluster, ["trainyard-agent"], timeout_seconds=5)
        assert caught.value.retryable
