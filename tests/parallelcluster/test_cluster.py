"""A cluster through the API, as far as a stand-in for AWS lets it go: it is made and described.

The stand-in deletes at once, so the end of `delete` cannot be seen here.
"""

from __future__ import annotations

import json
import time

import pytest
from tests.parallelcluster.cloud import SETTINGS, Cloud
from tests.parallelcluster.specs import spec
from tests.support.waiting import eventually

from trainyard.backends.parallelcluster.config import document
from trainyard.backends.parallelcluster.making import Making
from trainyard.backends.parallelcluster.refusals import Gone, wrong_version
from trainyard.backends.parallelcluster.states import cluster_status, node_state, stack_status
from trainyard.domain import errors
from trainyard.domain.states import BackendStatus, NodeState
from trainyard_contracts.parallelcluster import ParallelClusterSpec

pytestmark = pytest.mark.parallelcluster
NAME = "made"
TAGS = {"trainyard:cluster": NAME, "trainyard:record": "1/2026"}


@pytest.fixture(scope="module")
def configuration(cloud: Cloud) -> str:
    read = ParallelClusterSpec.model_validate(spec(cloud.places, name=NAME))
    return document(Making(read, 1, TAGS, SETTINGS))


@pytest.fixture(scope="module")
def made(cloud: Cloud, configuration: str) -> str:
    accepted = cloud.api.create(NAME, configuration)
    assert (accepted.cluster.cluster_name, accepted.cluster.version) == (NAME, "3.16.1")
    assert accepted.cluster.cluster_status == "CREATE_IN_PROGRESS"
    status = "CREATE_COMPLETE"
    eventually(
        "the stack is complete", lambda: cloud.api.describe(NAME).cluster_status == status, 120
    )
    return NAME


def test_a_cluster_that_was_made_is_described_with_its_head_node_and_our_tags(
    cloud: Cloud, made: str
) -> None:
    found = cloud.api.describe(made)
    assert cluster_status(found.cluster_status, found.cloudformation_stack_status) == (
        BackendStatus.IN_SERVICE
    )
    assert found.cloudformation_stack_arn.startswith("arn:aws:cloudformation:us-east-1:")
    assert {tag.key: tag.value for tag in found.tags or []}.items() >= TAGS.items()
    assert found.head_node is not None
    assert found.head_node.instance_id.startswith("i-")
    assert node_state(found.head_node.state) == NodeState.RUNNING
    assert wrong_version(found.version) is None


def test_without_the_word_of_its_fleet_it_is_still_being_made(cloud: Cloud, made: str) -> None:
    found = cloud.api.describe(made)
    assert found.compute_fleet_status == "UNKNOWN", "the head node writes the first word"
    status = cluster_status(found.cluster_status, "", found.compute_fleet_status)
    assert status == BackendStatus.CREATING


def test_a_cluster_is_in_the_list(cloud: Cloud, made: str) -> None:
    assert [one.cluster_status for one in cloud.api.clusters() if one.cluster_name == made] == [
        "CREATE_COMPLETE"
    ]


def test_its_instances_are_told_with_their_kinds(cloud: Cloud, made: str) -> None:
    (head,) = cloud.api.instances(made)
    assert (head.node_type, head.queue_name) == ("HeadNode", None)
    assert list(cloud.api.instances(made, queue="workers")) == []


def test_the_events_of_its_stack_have_words_that_we_know(cloud: Cloud, made: str) -> None:
    events = list(cloud.api.stack_events(made))
    stack = [one for one in events if one.resource_type == "AWS::CloudFormation::Stack"]
    assert {one.stack_name for one in events} == {made}
    assert [
        stack_status(one.resource_status or "") for one in stack if one.logical_resource_id == made
    ] == [BackendStatus.IN_SERVICE, BackendStatus.CREATING]


def test_its_fleet_is_told_once_the_head_node_wrote_it_and_can_be_stopped(
    cloud: Cloud, made: str
) -> None:
    table = cloud.client("dynamodb")
    written = {"status": "RUNNING", "lastStatusUpdatedTime": "2026-01-01 00:00:00.000000+00:00"}
    table.put_item(
        TableName=f"parallelcluster-{made}",
        Item={"Id": {"S": "COMPUTE_FLEET"}, "Data": {"M": _strings(written)}},
    )
    assert cloud.api.fleet(made).status == "RUNNING"
    assert cloud.api.set_fleet(made, running=False).status == "STOP_REQUESTED"
    found = cloud.api.describe(made)
    assert cluster_status(found.cluster_status, "", found.compute_fleet_status) == (
        BackendStatus.CHANGING
    )
    assert cloud.api.set_fleet(made, running=True).status == "START_REQUESTED"


def _strings(fields: dict[str, str]) -> dict[str, dict[str, str]]:
    return {key: {"S": value} for key, value in fields.items()}


def test_its_logs_are_listed_and_read(cloud: Cloud, made: str) -> None:
    logs = cloud.client("logs")
    (group,) = [
        one["logGroupName"]
        for one in logs.describe_log_groups()["logGroups"]
        if one["logGroupName"].startswith(f"/aws/parallelcluster/{made}-")
    ]
    stream = "ip-10-0-0-1.i-0123456789abcdef0.cfn-init"
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    at = int(time.time() * 1000)
    logs.put_log_events(
        logGroupName=group,
        logStreamName=stream,
        logEvents=[{"timestamp": at + number, "message": f"line {number}"} for number in range(9)],
    )
    assert [one.log_stream_name for one in cloud.api.log_streams(made)] == [stream]
    tail = cloud.api.log_tail(made, stream, 3)
    assert [one.message for one in tail] == ["line 6", "line 7", "line 8"]


def test_the_name_of_a_cluster_that_is_there_is_refused(
    cloud: Cloud, made: str, configuration: str
) -> None:
    for ask in (cloud.api.create, cloud.api.dry_run):
        with pytest.raises(errors.ClusterExists, match="already exists"):
            ask(made, configuration)


def test_a_cluster_that_is_not_there_is_gone(cloud: Cloud) -> None:
    for ask in (cloud.api.describe, cloud.api.delete, cloud.api.fleet):
        with pytest.raises(Gone, match="nobody"):
            ask("nobody")


def test_a_name_that_the_api_refuses_is_refused_in_its_words(
    cloud: Cloud, configuration: str
) -> None:
    with pytest.raises(errors.BackendRejected, match="1st"):
        cloud.api.dry_run("1st", configuration)


def test_a_text_that_is_no_configuration_is_refused_in_its_words(cloud: Cloud) -> None:
    with pytest.raises(errors.BackendRejected, match="YAML"):
        cloud.api.dry_run("demo", "no: [configuration")


def test_a_region_of_two_minds_is_refused(cloud: Cloud, configuration: str) -> None:
    other = json.dumps({**json.loads(configuration), "Region": "eu-west-1"})
    with pytest.raises(errors.BackendRejected, match="conflicts"):
        cloud.api.dry_run("demo", other)


def test_deleting_removes_the_stack(cloud: Cloud, configuration: str) -> None:
    name = "short-lived"
    cloud.api.create(name, configuration)
    eventually("it is made", lambda: cloud.api.describe(name).cluster_status == "CREATE_COMPLETE")
    with pytest.raises(Gone):  # the stand-in has deleted it when the API describes it again
        cloud.api.delete(name)
    with pytest.raises(Gone):
        cloud.api.describe(name)
