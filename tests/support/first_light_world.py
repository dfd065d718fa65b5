"""A world for first-light without a cloud: a recorded account, a quiet API, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.recorded_account import SUBNET, RecordedAccount

from trainyard_cli.first_light.engine import FirstLight
from trainyard_cli.first_light.record import Record, read
from trainyard_cli.first_light.register import Look
from trainyard_cli.first_light.stages import Stage
from trainyard_cli.first_light.watch import Watch
from trainyard_cli.first_light.world import World
from trainyard_sdk.client import Client

Json = dict[str, Any]
API_URL = "https://abc123.execute-api.us-west-2.amazonaws.com"
NETWORK = {
    "SubnetIds": SUBNET,
    "SecurityGroupIds": "sg-0123456789abcdef0",
    "FilesystemDnsName": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
    "FilesystemMountName": "abcdefgh",
}


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class AnsweringApi(Client):
    """Its clusters can be listed; nothing else is asked of it here."""

    def clusters(self, *, at_most: int = 1000) -> list[Json]:
        return []


def account_with_network(account: RecordedAccount, **outputs: str) -> RecordedAccount:
    own = account.answers["cloudformation:DescribeStacks"]
    listed = [
        {"OutputKey": key, "OutputValue": value}
        for key, value in {**NETWORK, **outputs}.items()
        if value
    ]
    stack = {
        "StackName": "net",
        "StackStatus": "CREATE_COMPLETE",
        "CreationTime": "2026-11-01T00:00:00Z",
        "Outputs": listed,
    }
    account.answers["cloudformation:DescribeStacks"] = lambda request: (
        {"Stacks": [stack]} if request["StackName"] == "net" else own
    )
    return account


def a_stage(act: Callable[[World, Watch], str], name: Any = "account") -> Stage:
    return Stage(name, "looking", 60, 60, act, paid=False)


def proving(_world: World, _watch: Watch) -> str:
    return "it is so"


def lit(
    world: World, record: Record, chosen: list[Stage], *asked: Look
) -> tuple[int, Json, list[str]]:
    """Exit status, file and what was told."""
    told: list[str] = []
    clock = Clock()
    code = FirstLight(world, record, asked, told.append, clock=clock, sleep=clock.sleep).run(chosen)
    return code, read(record.path), told
