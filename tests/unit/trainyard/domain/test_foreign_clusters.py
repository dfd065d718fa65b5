"""Whether Trainyard can run jobs on a cluster that others made."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.adopted import foreign

from trainyard.domain.errors import InvalidRequest
from trainyard.domain.foreign_clusters import MOST_NODES, ForeignGroup, check
from trainyard.domain.states import BackendStatus
from trainyard_contracts.adopting import AdoptSpec


def asked(**fields: Any) -> AdoptSpec:
    return AdoptSpec.model_validate({"name": "theirs", **fields})


def refused(spec: AdoptSpec, **seen: Any) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as error:
        check(spec, foreign(**seen))
    return {one.field: one.message for one in error.value.errors}


def group(
    name: str, role: Any = None, partition: str | None = None, count: int = 1
) -> ForeignGroup:
    return ForeignGroup(name, "ml.m5.large", count, role, partition)


def test_a_cluster_of_which_aws_says_enough_is_taken() -> None:
    check(asked(), foreign())
    groups = [group("a"), group("b"), group("door"), group("later", count=0)]
    said = {"controllerGroup": "a", "loginGroups": ["door"], "partitions": {"b": "batch"}}
    check(asked(sharedDir="/shared", **said), foreign(groups=groups, mount=None))


def test_everything_that_is_missing_is_named_at_once_with_what_would_be_right() -> None:
    found = refused(asked(), groups=[group("a"), group("b")], mount=None)
    assert set(found) == {"sharedDir", "controllerGroup", "partitions.a", "partitions.b"}
    assert "the cluster has: a, b" in found["controllerGroup"]
    assert "sinfo" in found["partitions.b"]


def test_groups_that_the_cluster_does_not_have_are_refused_by_name() -> None:
    found = refused(asked(controllerGroup="x", loginGroups=["y"], partitions={"z": "p"}))
    assert "no group 'x'; it has: gpu, head" in found["controllerGroup"]
    assert "no group 'y'" in found["loginGroups"]
    assert "no group 'z'" in found["partitions"]


@pytest.mark.parametrize(
    ("seen", "field", "words"),
    [
        ({"status": BackendStatus.CREATING, "said": "Creating"}, "name", "is Creating"),
        ({"slurm": False}, "name", "EKS"),
        ({"ours": "was made by the Trainyard stack 'x'"}, "name", "Trainyard stack 'x'"),
        (
            {"groups": [group("h", "controller"), group("w", "worker", "p", MOST_NODES)]},
            "name",
            "257 nodes; at most 256",
        ),
        (
            {"groups": [group("h", "controller", count=2), group("w", "worker", "p")]},
            "controllerGroup",
            "a controller group has one",
        ),
        ({"groups": [group("h", "controller")]}, "loginGroups", "no nodes besides"),
    ],
)
def test_a_cluster_that_cannot_be_adopted_is_refused(
    seen: dict[str, Any], field: str, words: str
) -> None:
    assert words in refused(asked(), **seen)[field]


def test_an_environment_that_is_made_lies_where_a_release_removes_it() -> None:
    with pytest.raises(ValueError, match=r"must lie below /opt/trainyard"):
        asked(environment={"kind": "venv", "path": "/home/env"})
    asked(environment={"kind": "existing", "path": "/home/env"})


@pytest.mark.parametrize(
    "fields",
    [{}, {"name": "a", "arn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"}],
)
def test_one_of_name_and_arn_is_given(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="give one of"):
        AdoptSpec.model_validate(fields)
