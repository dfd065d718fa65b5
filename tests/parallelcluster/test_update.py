"""What ParallelCluster's own API says of an update: what it takes, and why it refuses the rest.

The stand-in for AWS keeps a stack's first template, so an update is judged here and never made.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.parallelcluster.cloud import SETTINGS, Cloud
from tests.parallelcluster.specs import spec
from tests.support.waiting import eventually

from trainyard.backends.parallelcluster.config import document
from trainyard.backends.parallelcluster.making import Making
from trainyard.backends.parallelcluster.refusals import Invalid, NoChanges
from trainyard_contracts.parallelcluster import ParallelClusterSpec

pytestmark = pytest.mark.parallelcluster
NAME = "changed"
FLEET = {"status": "RUNNING", "lastStatusUpdatedTime": "2026-01-01 00:00:00.000000+00:00"}


def made(cloud: Cloud, **queue: Any) -> ParallelClusterSpec:
    first = {"min": 1, "max": 2, "instanceTypes": ["c5.xlarge"], **queue}
    return ParallelClusterSpec.model_validate(spec(cloud.places, name=NAME, queue=first))


def text(given: ParallelClusterSpec) -> str:
    return document(Making(given, 1, {"trainyard:cluster": NAME}, SETTINGS))


@pytest.fixture(scope="module")
def cluster(cloud: Cloud) -> str:
    cloud.api.create(NAME, text(made(cloud)))
    status = "CREATE_COMPLETE"
    eventually(
        "the stack is complete", lambda: cloud.api.describe(NAME).cluster_status == status, 120
    )
    return NAME


def fleet_is(cloud: Cloud, status: str) -> None:
    """What the head node writes."""
    data = {key: {"S": value} for key, value in {**FLEET, "status": status}.items()}
    cloud.client("dynamodb").put_item(
        TableName=f"parallelcluster-{NAME}",
        Item={"Id": {"S": "COMPUTE_FLEET"}, "Data": {"M": data}},
    )


def test_more_nodes_and_another_queue_are_taken_while_the_fleet_runs(
    cloud: Cloud, cluster: str
) -> None:
    fleet_is(cloud, "RUNNING")
    cloud.api.update_dry_run(cluster, text(made(cloud, max=9)))
    given = made(cloud)
    more = given.queues[0].changed(name="more", min=0)
    cloud.api.update_dry_run(cluster, text(given.changed(queues=[*given.queues, more])))


@pytest.mark.parametrize(
    ("queue", "field"),
    [
        ({"max": 1}, "queues.0.max"),
        ({"min": 2}, "queues.0.min"),
        ({"instanceTypes": ["c5.2xlarge"]}, "queues.0.instanceTypes"),
    ],
)
def test_what_takes_nodes_away_needs_a_stopped_fleet_and_is_taken_then(
    cloud: Cloud, cluster: str, queue: dict[str, Any], field: str
) -> None:
    fleet_is(cloud, "RUNNING")
    wanted = made(cloud, **queue)
    with pytest.raises(Invalid) as refused:
        cloud.api.update_dry_run(cluster, text(wanted))
    assert refused.value.needs_stop, refused.value.detail
    assert {one.field for one in refused.value.told_of(wanted).errors} == {field}
    fleet_is(cloud, "STOPPED")
    cloud.api.update_dry_run(cluster, text(wanted))


def test_what_never_changes_is_refused_by_our_field_even_with_a_stopped_fleet(
    cloud: Cloud, cluster: str
) -> None:
    fleet_is(cloud, "STOPPED")
    given = made(cloud)
    head = given.head_node.changed(instance_type="c5.2xlarge", root_volume_gib=99)
    wanted = given.changed(head_node=head)
    with pytest.raises(Invalid, match="not currently supported for the 'InstanceType'") as refused:
        cloud.api.update_dry_run(cluster, text(wanted))
    assert not refused.value.needs_stop
    assert {one.field for one in refused.value.told_of(wanted).errors} == {
        "headNode.instanceType", "headNode.rootVolumeGib",
    }  # fmt: skip


def test_the_configuration_that_it_has_is_no_change(cloud: Cloud, cluster: str) -> None:
    with pytest.raises(NoChanges):
        cloud.api.update_dry_run(cluster, text(made(cloud)))


def test_a_mistake_is_refused_before_anything_is_compared(cloud: Cloud, cluster: str) -> None:
    wanted = made(cloud, subnetIds=["subnet-00000000000000000"])
    with pytest.raises(Invalid):
        cloud.api.update_dry_run(cluster, text(wanted))
