"""Settings name the variable that is wrong; wiring builds every port without a single call."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from trainyard.settings import MissingSetting, Settings
from trainyard.wiring import build
from trainyard_contracts.cluster_specs import ClusterSpec

ENVIRONMENT = {
    "STAGE": "trainyard", "AWS_REGION": "us-east-1", "TABLE_NAME": "t", "DATA_BUCKET": "sagemaker-d", "EVENT_BUS_NAME": "b",
    "DEAD_LETTERS_URL": "https://sqs.us-east-1.amazonaws.com/1/dead",
    "RUN_MACHINE_ARN": "arn:aws:states:us-east-1:1:stateMachine:trainyard-run",
    "CLUSTER_MACHINE_ARN": "arn:aws:states:us-east-1:1:stateMachine:trainyard-cluster",
    "TEARDOWN_MACHINE_ARN": "arn:aws:states:us-east-1:1:stateMachine:trainyard-teardown",
    "NODE_BOUNDARY_ARN": "arn:aws:iam::1:policy/n", "SECRET_PREFIX": "trainyard/trainyard",
    "DEFAULT_SUBNET_IDS": "subnet-1, subnet-2", "DEFAULT_SECURITY_GROUP_IDS": "", "HEARTBEAT_SECONDS": "2",
}  # fmt: skip


def test_settings_are_read_from_the_environment() -> None:
    settings = Settings.from_env(ENVIRONMENT)
    assert settings.default_subnet_ids == ("subnet-1", "subnet-2")
    assert settings.default_security_group_ids == ()
    assert settings.heartbeat_seconds == 2


@pytest.mark.parametrize(
    "name",
    [
        "STAGE",
        "TABLE_NAME",
        "DATA_BUCKET",
        "DEAD_LETTERS_URL",
        "RUN_MACHINE_ARN",
        "NODE_BOUNDARY_ARN",
        "SECRET_PREFIX",
    ],
)
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(MissingSetting, match=name):
        Settings.from_env({**ENVIRONMENT, name: ""})


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan s"])
def test_a_malformed_number_is_named_with_its_value(text: str) -> None:
    with pytest.raises(MissingSetting, match=f"HEARTBEAT_SECONDS is '{text}'"):
        Settings.from_env({**ENVIRONMENT, "HEARTBEAT_SECONDS": text})


def test_there_is_a_backend_for_each_that_a_spec_may_name() -> None:
    union = get_args(ClusterSpec.__value__)[0]
    members = get_args(union) or (union,)
    named = {get_args(member.model_fields["backend"].annotation)[0] for member in members}
    assert set(build(Settings.from_env(ENVIRONMENT)).backends) == named


def test_wiring_builds_every_port_once_and_loads_no_client_for_it() -> None:
    program = (
        "import sys; from trainyard.wiring import ports; made = ports(); assert ports() is made; "
        "assert made.config.secret_prefix == 'trainyard/trainyard'; "
        "loaded = [name for name in ('boto3', 'websockets', 'moto') if name in sys.modules]; assert not loaded, loaded"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={**ENVIRONMENT, "PATH": ""}, check=True, timeout=240
    )
