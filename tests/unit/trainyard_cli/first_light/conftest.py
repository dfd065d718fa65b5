"""Fixtures of first-light's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.first_light_world import (
    API_URL,
    AnsweringApi,
    account_with_network,
)
from tests.support.recorded_account import RecordedAccount

from trainyard_cli.first_light import plan
from trainyard_cli.first_light.record import Record
from trainyard_cli.first_light.redaction import Redactor
from trainyard_cli.first_light.world import World
from trainyard_sdk.connection import Connection


@pytest.fixture
def account() -> RecordedAccount:
    return RecordedAccount()


@pytest.fixture
def world(account: RecordedAccount) -> World:
    spec = plan.spec_of(
        None,
        account_with_network(account),
        local=False,
        network_stack="net",
        instance_type="ml.c5.xlarge",
        resume=True,
    )
    return World(
        AnsweringApi(Connection(API_URL, "us-west-2")), account, spec, "first-light-abcdefgh"
    )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record.new(tmp_path / "light.json", Redactor(), cluster="first-light-abcdefgh")
