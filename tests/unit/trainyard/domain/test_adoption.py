"""What a cluster of others must be to be adopted, and which of its nodes wait for the agent."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.adopted import FIRST, HEAD, SECOND, a_node, foreign

from trainyard.domain.adoption import SILENT_SECONDS, due, failed, lacking, settled
from trainyard.domain.errors import InvalidRequest
from trainyard.domain.foreign_clusters import MOST_NODES, ForeignGroup, check
from trainyard.domain.records import AdoptedNode, Adoption
from trainyard.domain.states import BackendStatus
from trainyard_contracts.adopting import AdoptSpec

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)
NODES = [a_node(HEAD, "head", 11), a_node(FIRST, number=12), a_node(SECOND, number=13)]


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


def known(state: Any, seconds: float = 0, tries: int = 0) -> AdoptedNode:
    at = NOW - timedelta(seconds=seconds)
    return AdoptedNode(group="gpu", state=state, at=at, tries=tries)


def names(nodes: dict[str, AdoptedNode], *linked: str) -> list[str]:
    adoption = Adoption(replace_nodes=False, nodes=nodes)
    return [node.instance_id for node in due(adoption, NODES, linked, NOW)]


def test_the_controller_is_asked_before_all_others() -> None:
    assert names({}) == [HEAD]
    assert names({HEAD: known("installing", 1)}) == []
    assert names({HEAD: known("installed")}) == [FIRST, SECOND]


def test_a_node_that_failed_is_asked_again_later_and_later() -> None:
    head = {HEAD: known("installed"), SECOND: known("installed")}
    assert names({**head, FIRST: known("failed", 5, 1)}) == []
    assert names({**head, FIRST: known("failed", 25, 1)}) == [FIRST]
    assert names({**head, FIRST: known("failed", 60, 4)}) == []


def test_an_agent_that_is_silent_for_long_is_asked_for_again() -> None:
    have = {one: known("installed", SILENT_SECONDS + 1) for one in (HEAD, FIRST, SECOND)}
    assert names(have, HEAD, FIRST) == [SECOND]
    assert names({**have, SECOND: known("installed", 10)}, HEAD, FIRST) == []


def test_a_worker_that_failed_often_is_not_waited_for_and_a_controller_is() -> None:
    have = {HEAD: known("installed"), FIRST: known("installed"), SECOND: known("failed", tries=3)}
    assert lacking(Adoption(replace_nodes=False, nodes=have), NODES) == 0
    have[HEAD] = known("failed", tries=9)
    assert lacking(Adoption(replace_nodes=False, nodes=have), NODES) == 1


def test_a_node_is_not_taken_back_while_what_it_was_asked_for_may_still_begin() -> None:
    assert not settled(known("asked", 5), NOW)
    assert settled(known("asked", 61), NOW)
    assert settled(known("installed"), NOW)


def test_failures_are_counted_and_the_newest_reason_kept() -> None:
    once = failed(known("installing"), "why", NOW)
    assert (once.state, once.tries, once.reason) == ("failed", 1, "why")
    assert failed(once, "x" * 5000, NOW).reason == "x" * 1000
