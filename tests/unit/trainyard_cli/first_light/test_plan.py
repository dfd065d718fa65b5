"""What first-light makes a cluster and a run of, and what it refuses."""

from __future__ import annotations

import pytest
from tests.support.first_light_world import (
    account_with_network,
)
from tests.support.recorded_account import SUBNET, RecordedAccount

from trainyard_cli.first_light import plan
from trainyard_cli.first_light.world import World
from trainyard_cli.problems import InvalidInput
from trainyard_contracts.specs import RunSpec


def test_the_smallest_cluster_is_made_of_the_networks_outputs_and_is_a_valid_spec(
    world: World,
) -> None:
    spec = RunSpec.model_validate(world.spec)
    assert spec.cluster.spec is not None
    assert spec.cluster.spec.network is not None
    assert spec.cluster.spec.network.subnet_ids == [SUBNET]
    assert [group.count + group.spares for group in spec.cluster.spec.instance_groups] == [1, 2]
    assert spec.cluster.spec.environment.requirements == ["torch==2.13.0"]


def test_on_the_local_cloud_no_network_is_asked_for(account: RecordedAccount) -> None:
    spec = plan.spec_of(
        None, account, local=True, network_stack=None, instance_type="ml.c5.xlarge", resume=True
    )
    RunSpec.model_validate(spec)
    assert account.asked == []


def test_a_network_of_aws_is_not_taken_for_one_of_the_local_cloud(account: RecordedAccount) -> None:
    with pytest.raises(InvalidInput, match="the local cloud has no stack net") as refused:
        plan.spec_of(
            None,
            account,
            local=True,
            network_stack="net",
            instance_type="ml.c5.xlarge",
            resume=True,
        )
    assert "TRAINYARD_API_URL" in refused.value.next_step


def test_a_clusters_spec_gets_the_smallest_job(account: RecordedAccount, world: World) -> None:
    spec = plan.spec_of(
        world.cluster_spec, account, local=False, network_stack=None, instance_type="", resume=False
    )
    assert RunSpec.model_validate(spec).job.arguments == ["--steps", "200", "--step-seconds", "0.1"]


def test_without_a_network_it_says_what_to_give(account: RecordedAccount) -> None:
    with pytest.raises(InvalidInput, match="--network-stack: is missing"):
        plan.spec_of(
            None,
            account,
            local=False,
            network_stack=None,
            instance_type="ml.c5.xlarge",
            resume=True,
        )


def test_a_stack_that_is_no_network_is_refused_with_what_it_lacks(account: RecordedAccount) -> None:
    account_with_network(account, FilesystemMountName="")
    with pytest.raises(InvalidInput, match="has no output FilesystemMountName"):
        plan.spec_of(
            None,
            account,
            local=False,
            network_stack="net",
            instance_type="ml.c5.xlarge",
            resume=True,
        )


def test_a_run_on_a_cluster_that_is_there_is_refused(account: RecordedAccount) -> None:
    with pytest.raises(InvalidInput, match=r"cluster\.spec: is missing"):
        plan.spec_of(
            {"job": {}, "cluster": {"name": "c"}},
            account,
            local=False,
            network_stack=None,
            instance_type="",
            resume=True,
        )


def test_a_run_that_exports_nothing_is_refused(account: RecordedAccount, world: World) -> None:
    with pytest.raises(InvalidInput, match=r"export\.enabled: is false"):
        plan.spec_of(
            {**world.spec, "export": {"enabled": False}},
            account,
            local=False,
            network_stack=None,
            instance_type="",
            resume=True,
        )
