"""Wiring builds every port without a single call."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
from tests.support.settings import ENVIRONMENT

from trainyard.settings import Settings
from trainyard.wiring import build
from trainyard_contracts.cluster_specs import ClusterSpec


def test_there_is_a_backend_for_each_that_a_spec_may_name() -> None:
    union = get_args(ClusterSpec.__value__)[0]
    members = get_args(union) or (union,)
    named = {get_args(member.model_fields["backend"].annotation)[0] for member in members}
    assert set(build(Settings.from_env(ENVIRONMENT)).backends) == named


@pytest.mark.real
def test_wiring_builds_every_port_once_and_loads_no_client_for_it() -> None:
    program = (
        "import sys; from trainyard.wiring import ports; made = ports(); assert ports() is made; "
        "assert made.config.secret_prefix == 'trainyard/trainyard'; "
        "loaded = [name for name in ('boto3', 'websockets', 'moto') if name in sys.modules]; "
        "assert not loaded, loaded"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={**ENVIRONMENT, "PATH": ""}, check=True, timeout=240
    )
