"""A filesystem that is given by its id lies where the nodes are, or it is said that it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory_lustre import NETWORK
from tests.support.parallelcluster_specs import HEAD_SUBNET
from tests.support.parallelcluster_specs import SUBNET as QUEUE_SUBNET
from tests.support.parallelcluster_specs import spec as queue_spec
from tests.support.story import Story, run_spec
from tests.support.training_jobs import spec_fields

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.runs.dry_run import dry_run_cluster, dry_run_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.domain.errors import InvalidRequest
from trainyard.outside.networks import Place
from trainyard.outside.seen_filesystems import SeenFilesystem
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.specs import RunSpec

FSX = "fs-0123456789abcdef0"
NEAR, FAR = "subnet-0aaaaaaa", "subnet-0bbbbbbb"


def asked(*subnets: str, **filesystem: Any) -> RunSpec:
    mounted = {"fileSystemId": FSX, "directoryPath": "/abcdefgh/tokens", **filesystem}
    spec = spec_fields(
        framework=None,
        image="1.dkr.ecr.us-east-1.amazonaws.com/pytorch:1",
        channels=[{"name": "tokens", "fileSystem": mounted}],
        network={"subnetIds": list(subnets), "securityGroupIds": ["sg-0a1b2c3d"]},
    )
    return run_spec(cluster={"spec": spec})


@pytest.fixture
def story() -> Story:
    story = Story()
    ports = story.world.ports
    backends = {**ports.backends, "training-job": ports.backends["hyperpod"]}
    backends["parallelcluster"] = ports.backends["hyperpod"]
    story.world.ports = replace(ports, backends=backends)
    story.world.lustre.there[FSX] = SeenFilesystem(
        FSX, f"arn:{FSX}", "there", "AVAILABLE", vpc=NETWORK, subnet=NEAR
    )
    story.world.networks.elsewhere = {FAR: Place(NETWORK, "us-east-1b")}
    return story


def refused(story: Story, spec: RunSpec) -> str:
    with pytest.raises(InvalidRequest) as error:
        submit_run(story.world.ports, spec)
    return str(error.value)


def said(story: Story, spec: RunSpec) -> list[str]:
    warnings = submit_run(story.world.ports, spec).warnings
    return [one for one in warnings if one.startswith("Filesystem")]


def test_a_filesystem_in_the_zone_of_the_nodes_is_taken_without_a_word(story: Story) -> None:
    assert said(story, asked(NEAR)) == []


def test_one_in_another_zone_than_all_nodes_is_refused_with_both_zones(story: Story) -> None:
    words = refused(story, asked(FAR))
    assert words.startswith("cluster.spec.channels.0.fileSystem.fileSystemId: filesystem fs-")
    assert "lies in us-east-1a" in words
    assert "use a subnet in us-east-1a" in words


def test_one_that_some_nodes_may_be_far_from_is_warned_of(story: Story) -> None:
    [words] = said(story, asked(NEAR, FAR))
    assert "lies in us-east-1a, and nodes may be in us-east-1b" in words


def test_one_in_another_network_is_refused_with_the_subnet(story: Story) -> None:
    story.world.networks.elsewhere[FAR] = Place("vpc-0fffffff", "us-east-1a")
    assert f"subnet {FAR} of network.subnetIds in vpc-0fffffff" in refused(story, asked(NEAR, FAR))


def test_one_that_aws_has_not_is_refused_and_one_of_efs_is_left_to_aws(story: Story) -> None:
    del story.world.lustre.there[FSX]
    assert f"AWS has no FSx filesystem {FSX}" in refused(story, asked(NEAR))
    efs = asked(NEAR, type="EFS", directoryPath="/tokens")
    assert said(story, efs) == []


def test_one_whose_zone_is_not_known_is_judged_by_its_network_alone(story: Story) -> None:
    story.world.lustre.there[FSX] = replace(story.world.lustre.there[FSX], subnet="")
    assert said(story, asked(FAR)) == []


# -- ParallelCluster, which itself refuses another network only -----------------------------------
QUEUES = queue_spec(name="queues", fsx={"fileSystemId": FSX})
FIELD = "sharedStorage.0.fsx.fileSystemId"


def of_queues() -> RunSpec:
    return run_spec(cluster={"spec": QUEUES}, nodes=1)


def told(story: Story) -> list[list[str]]:
    """By everybody who is asked: a run, a cluster, and the dry runs of both."""
    ports, cluster = story.world.ports, read_cluster_spec({**QUEUES, "name": "standing"})
    found = [
        submit_run(ports, of_queues()).warnings,
        dry_run_run(ports, of_queues()).warnings,
        dry_run_cluster(ports, cluster).warnings,
        create_cluster(ports, cluster).warnings,
    ]
    return [[one for one in warnings if FSX in one] for warnings in found]


def test_a_parallelcluster_near_its_filesystem_is_made_without_a_word(story: Story) -> None:
    assert told(story) == [[]] * 4


def test_a_parallelcluster_far_from_its_filesystem_is_told_so_by_everybody(story: Story) -> None:
    for subnet in (QUEUE_SUBNET, HEAD_SUBNET):
        story.world.networks.elsewhere[subnet] = Place(NETWORK, "us-east-1b")
    words = (
        f"Filesystem {FSX} lies in us-east-1a, and all nodes are in us-east-1b: from there it is "
        "slower, and AWS bills the traffic."
    )
    assert told(story) == [[words]] * 4


def test_a_head_node_in_another_zone_is_told_too(story: Story) -> None:
    story.world.networks.elsewhere[HEAD_SUBNET] = Place(NETWORK, "us-east-1b")
    for [words] in told(story):
        assert "nodes may be in us-east-1b" in words


def test_a_parallelcluster_in_another_network_is_refused_before_anything_is_made(
    story: Story,
) -> None:
    story.world.networks.elsewhere[QUEUE_SUBNET] = Place("vpc-0fffffff", "us-east-1a")
    words = f"subnet {QUEUE_SUBNET} of queues, headNode and loginNodes in vpc-0fffffff"
    cluster = read_cluster_spec({**QUEUES, "name": "standing"})
    for asked, given, prefix in (
        (submit_run, of_queues(), "cluster.spec."),
        (dry_run_run, of_queues(), "cluster.spec."),
        (create_cluster, cluster, ""),
        (dry_run_cluster, cluster, ""),
    ):
        with pytest.raises(InvalidRequest, match=words) as refused:
            asked(story.world.ports, given)
        assert [one.field for one in refused.value.errors] == [prefix + FIELD]
    assert "standing" not in story.world.clusters.stored


def test_one_that_aws_has_not_is_left_to_parallelclusters_own_words(story: Story) -> None:
    del story.world.lustre.there[FSX]
    assert told(story) == [[]] * 4
