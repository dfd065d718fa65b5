"""An update of a ParallelCluster on real nodes: a queue comes, a run trains there, the fleet rests.

The sweep takes a change from step to step; here it is called instead of awaited each minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.queue_cloud import QueueCloud, queue_cloud, queue_spec
from tests.support.system import eventually, light_job, total

from trainyard.backends.parallelcluster.refusals import Gone
from trainyard_cli.problems import ApiProblem
from trainyard_contracts.places import lifecycle_prefix

pytestmark = pytest.mark.long

NAME = "grows"
Json = dict[str, Any]
FIRST: Json = {"name": "first", "min": 1, "max": 1}
MORE: Json = {"name": "first", "min": 1, "max": 2}
SECOND: Json = {"name": "second", "min": 1, "max": 1}
OTHER_TYPE: Json = {"name": "second", "min": 1, "max": 1, "instanceTypes": ["c5.2xlarge"]}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueCloud]:
    with queue_cloud(tmp_path_factory.mktemp("update")) as found:
        found.make(spec(FIRST))
        yield found


def spec(*queues: Json) -> Json:
    return queue_spec(NAME, *queues)


def changed(cloud: QueueCloud, seconds: float = 120) -> Json:
    """Until the change of the cluster is over."""

    def over() -> Json | None:
        cloud.system.sweep()
        found = cloud.system.api.cluster(NAME)
        return found if found["change"] and found["change"]["endedAt"] else None

    return eventually("the change is over", over, seconds, poll=1)


def trains_on(cloud: QueueCloud, name: str, queue: str) -> Json:
    job = light_job(nodes=1, steps=5, step_seconds=0.1) | {"partition": queue}
    run_id = cloud.system.submit(name, job, NAME)
    run = cloud.system.ended(run_id, "Succeeded", 180)
    assert cloud.system.value(run_id) == total(5)
    return run


def test_a_queue_is_added_and_a_run_trains_on_it(cloud: QueueCloud) -> None:
    asked = cloud.system.api.update_cluster(NAME, spec(MORE, SECOND))
    assert (asked["status"], asked["change"]["state"]) == ("Ready", "waiting")
    found = changed(cloud)
    assert (found["status"], found["change"]["state"]) == ("Ready", "done"), found["change"]
    assert not found["change"]["stopsFleet"]
    assert [queue["name"] for queue in found["spec"]["queues"]] == ["first", "second"]
    assert cloud.states(NAME)["first-dy-nodes-1"] == "idle~"
    eventually(
        "the new queue's node is up",
        lambda: cloud.states(NAME).get("second-st-nodes-1") == "idle",
        120,
    )
    (attempt,) = trains_on(cloud, "second", "second")["attempts"]
    assert attempt["nodes"] == ["second-st-nodes-1"]


def test_the_fleet_is_stopped_by_itself_where_the_change_needs_that(cloud: QueueCloud) -> None:
    plan = cloud.system.api.update_cluster(NAME, spec(MORE, OTHER_TYPE), dryrun=True)
    assert any("All compute nodes must be stopped" in words for words in plan["warnings"])
    cloud.system.api.update_cluster(NAME, spec(MORE, OTHER_TYPE))
    found = changed(cloud)
    assert (found["change"]["state"], found["change"]["stopsFleet"]) == ("done", True)
    eventually(
        "the node is of the other type",
        lambda: (
            [one.instance_type for one in cloud.api.instances(NAME, "second")] == ["c5.2xlarge"]
        ),
        120,
    )


def test_an_update_whose_script_fails_is_rolled_back_and_the_cluster_goes_on(
    cloud: QueueCloud,
) -> None:
    s3, bucket = cloud.aws("s3"), cloud.system.local["bucket"]
    key = f"{lifecycle_prefix(NAME, 1)}/parallelcluster.py"
    kept = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    s3.delete_object(Bucket=bucket, Key=key)
    try:
        cloud.system.api.update_cluster(
            NAME, spec(MORE, OTHER_TYPE, {"name": "third", "min": 0, "max": 1})
        )
        found = changed(cloud)
    finally:
        s3.put_object(Bucket=bucket, Key=key, Body=kept)
    assert (found["status"], found["change"]["state"]) == ("Ready", "rolled-back")
    assert "HeadNodeWaitCondition" in found["change"]["reason"]
    assert "OnNodeUpdated" in found["change"]["reason"]
    assert [queue["name"] for queue in found["spec"]["queues"]] == ["first", "second"]
    assert "third-dy-nodes-1" not in cloud.states(NAME)


def test_a_stopped_fleet_has_no_workers_takes_no_run_and_is_ready_again_once_started(
    cloud: QueueCloud,
) -> None:
    cloud.system.api.stop_cluster(NAME)
    found = changed(cloud)
    assert (found["status"], found["change"]["state"]) == ("Stopped", "done")
    assert cloud.workers(NAME, "first") == cloud.workers(NAME, "second") == []
    with pytest.raises(ApiProblem) as refused:
        cloud.system.submit("stopped", light_job(nodes=1, steps=1), NAME)
    assert refused.value.code == "wrong-state"
    cloud.system.api.start_cluster(NAME)
    found = changed(cloud)
    assert (found["status"], found["change"]["state"]) == ("Ready", "done")
    trains_on(cloud, "after-the-rest", "first")


def test_what_parallelcluster_never_changes_is_refused_by_its_own_reason(cloud: QueueCloud) -> None:
    wanted = spec(MORE, OTHER_TYPE)
    wanted["headNode"]["instanceType"] = "c5.xlarge"
    with pytest.raises(ApiProblem) as refused:
        cloud.system.api.update_cluster(NAME, wanted)
    assert refused.value.code == "backend-rejected"
    assert "not currently supported for the 'InstanceType'" in str(refused.value)
    assert cloud.system.api.cluster(NAME)["change"]["state"] == "done", "nothing was begun"


def test_a_cluster_that_is_updated_is_deleted_once_the_update_is_over(cloud: QueueCloud) -> None:
    cloud.system.api.update_cluster(NAME, spec({**MORE, "max": 3}, OTHER_TYPE))

    def sent() -> bool:
        """The sweep of each minute may be at it, too, or the API may not answer it in time."""
        cloud.system.sweep()
        state = cloud.system.api.cluster(NAME)["change"]["state"]
        return state not in ("waiting", "begun", "sending")

    eventually("the update is sent", sent, 60, poll=0.1)
    cloud.system.api.delete_cluster(NAME, force=True)

    def gone() -> bool:
        return bool(cloud.system.api.cluster(NAME)["status"] == "Deleted")

    eventually("it is deleted", gone, 120)
    with pytest.raises(Gone):
        cloud.api.describe(NAME)
