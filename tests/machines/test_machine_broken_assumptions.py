"""Assumptions that need a machine to be broken: image, units, users; first-light finds each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.machines.conftest import FILESYSTEM, Json, Machines
from tests.support.broken import Broken, assert_found
from tests.support.first_light import FirstLight
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, light_job

pytestmark = [pytest.mark.machines, pytest.mark.first_light]

WHOLE_SECONDS = 300.0
BROKEN = [
    Broken("A-033", "slurm-comes-late", "create", "slurmSetup: ProvisioningParameters"),
    Broken(
        "A-030", "slurmd-takes-no-options", "ready", "slurmd.service on a worker", ("ready=20",)
    ),
    Broken("A-037", "sessions-have-no-sudo", "command", "Run As"),
]


@pytest.fixture(params=BROKEN, ids=lambda broken: broken.assumption)
def broken(request: pytest.FixtureRequest, system: System) -> Iterator[Broken]:
    with request.param.on(system) as found:
        yield found


def smallest(quirk: str) -> Json:
    """One worker. What is the image's and what the scripts' to set up differs with the quirk."""
    ways = {
        "slurmd-takes-no-options": {
            "slurmSetup": "ProvisioningParameters",
            "provisioning": "AllAtOnce",
        }
    }
    cluster = cluster_spec(
        "light", workers=1, environment={"kind": "existing", "path": "/opt/trainyard/env"},
        network={"subnetIds": ["subnet-0123456789abcdef0"],
                 "securityGroupIds": ["sg-0123456789abcdef0"]},
        sharedFilesystem={"dnsName": FILESYSTEM["DnsName"], "mountName": FILESYSTEM["MountName"]},
        **ways.get(quirk, {}),
    )  # fmt: skip
    return {"name": "light", "cluster": {"spec": cluster}, "job": light_job(nodes=1, steps=10)}


def test_first_light_finds_what_only_a_machine_can_break(
    broken: Broken, system: System, machines: Machines, tmp_path: Path
) -> None:
    with FirstLight(
        system, tmp_path, "--yes", "--without-resume", *broken.options, spec=smallest(broken.quirk)
    ) as light:
        code, document = light.ended(WHOLE_SECONDS)
    assert_found(broken, code, document, system, light.words)
    assert machines.nodes(document["cluster"]) == []
