"""A channel's filesystem must lie where the nodes are: their network, and one of their zones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory_lustre import NETWORK
from tests.support.story import Story, run_spec
from tests.support.training_jobs import spec_fields

from trainyard.app.runs.submit_run import submit_run
from trainyard.domain.errors import InvalidRequest
from trainyard.ports import Place, SeenFilesystem
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
