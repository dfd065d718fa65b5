"""What AWS accepts and people would want to know is said in sentences that name the field."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.training_jobs import spec

from trainyard.backends.training_job.warnings import warnings

TWO = {
    "subnetIds": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"],
    "securityGroupIds": ["sg-0a1b2c3d"],
}
ONE = {**TWO, "subnetIds": ["subnet-0a1b2c3d"]}
TORCHRUN = {"distribution": {"kind": "torchrun"}}
OWN = {"framework": None, "image": "mine:1"}


def groups(first: str, second: str) -> dict[str, Any]:
    made = [
        {"name": name, "instanceType": kind, "instanceCount": 1}
        for name, kind in (("a", first), ("b", second))
    ]
    return {"instanceType": None, "instanceCount": None, "instanceGroups": made}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"network": TWO}, "network.subnetIds: ml.p4d.24xlarge speaks over EFA"),
        ({"instanceType": "ml.g5.2xlarge"}, "instanceType: ml.g5.2xlarge has no EFA, so 2 nodes"),
        (TORCHRUN, "distribution.kind: 'torchrun' is started by AWS's toolkit"),
        ({"distribution": {"kind": "parameter-server"}}, "distribution.kind: AWS's image of"),
        (TORCHRUN | {"instanceType": "ml.c5.xlarge"}, "distribution.kind: AWS's SDK takes"),
        ({"warmPoolSeconds": 3601}, "warmPoolSeconds: 3601 is more than the 3600"),
        (
            groups("ml.p4d.24xlarge", "ml.g5.48xlarge")
            | {"distribution": {"kind": "torchrun", "instanceGroup": "a"}},
            "distribution.instanceGroup: AWS's SDK names no group",
        ),
        (
            groups("ml.p5en.48xlarge", "ml.p4d.24xlarge")
            | OWN
            | {"distribution": {"kind": "mpi", "instanceGroup": "a"}},
            "instanceGroups: AWS's container does not set EFA's variables for ml.p5en.48xlarge",
        ),
    ],
)
def test_a_doubtful_spec_is_warned_of_in_sentences(fields: dict[str, Any], words: str) -> None:
    said = warnings(spec(**fields))
    assert [one.startswith(words) for one in said].count(True) == 1
    assert all(one.endswith(".") for one in said)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"network": ONE},
        {"instanceCount": 1},
        {"network": TWO, "instanceType": "ml.c5.xlarge"},
        {"network": TWO, "instanceType": "ml.g5.xlarge", "instanceCount": 1},
        {"spot": {"maxWaitSeconds": 86400}},
        {"warmPoolSeconds": 3600},
        OWN | {"instanceType": "ml.trn2.48xlarge"},
    ],
)
def test_a_usual_spec_is_not_warned_of(fields: dict[str, Any]) -> None:
    assert warnings(spec(**fields)) == []
