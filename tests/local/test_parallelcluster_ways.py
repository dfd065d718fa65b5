"""EC2 lacks what a ParallelCluster is made of: the next way of the spec, on real Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.queue_cloud import QueueCloud, queue_cloud, queue_spec
from tests.support.system import light_job, total

pytestmark = pytest.mark.long

SCARCE, STEPS = "c5.24xlarge", 20


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueCloud]:
    with queue_cloud(tmp_path_factory.mktemp("ways")) as found:
        found.system.fault("no-capacity", "", instanceType=SCARCE)
        yield found


def test_a_job_on_a_queue_from_zero_gets_its_nodes_in_the_next_way(cloud: QueueCloud) -> None:
    system = cloud.system
    ways = [{"instanceType": SCARCE, "tryForSeconds": 5}, {}]
    spec = queue_spec("from-zero", {"name": "workers", "max": 2}, capacity=ways)
    run_id = system.submit("from-zero", light_job(nodes=1, steps=STEPS), spec)
    run = system.ended(run_id, "Succeeded", 240)
    assert system.value(run_id) == total(STEPS)
    found = system.api.cluster(run["clusterName"])
    assert (found["status"], found["generation"]) == ("Deleted", 2)
    first, second = found["tries"]
    assert "EC2 has no capacity" in first["reason"]
    assert (first["way"], second["way"]) == (f"{SCARCE}, on demand", "c5.xlarge, on demand")
    [left] = [line["message"] for line in system.timeline(run_id, "LeavingWay")]
    assert left.endswith("The next way is tried.")


def test_a_head_node_that_is_not_to_be_had_is_another_one_in_the_next_way(
    cloud: QueueCloud,
) -> None:
    system = cloud.system
    ways = [{"headNode": {"instanceType": SCARCE}}, {"headNode": {"instanceType": "m5.large"}}]
    spec = queue_spec("head", {"name": "workers", "max": 1}, capacity=ways)
    run_id = system.submit("head", light_job(nodes=1, steps=STEPS), spec)
    run = system.ended(run_id, "Succeeded", 240)
    first, _ = system.api.cluster(run["clusterName"])["tries"]
    assert f"do not have sufficient {SCARCE} capacity" in first["reason"]
    assert system.value(run_id) == total(STEPS)
