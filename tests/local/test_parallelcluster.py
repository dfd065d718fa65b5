"""ParallelCluster on the local cloud: clusters of a real Slurm whose nodes come and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError
from tests.support.queue_cloud import QueueCloud, queue_cloud, queue_spec
from tests.support.system import eventually, light_job, total

from trainyard.backends.parallelcluster.refusals import Gone, Invalid
from trainyard.domain import errors

NAME = "queues"
STEPS = 60
#: A static node beyond the job, nodes from zero, and spot nodes.
QUEUES: list[dict[str, Any]] = [
    {"name": "steady", "min": 3, "max": 3},
    {"name": "zero", "max": 2},
    {"name": "spot", "max": 2, "capacity": "spot"},
]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueCloud]:
    with queue_cloud(tmp_path_factory.mktemp("queues")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(cloud: QueueCloud) -> str:
    cloud.make(queue_spec(NAME, *QUEUES))
    return NAME


def test_a_cluster_is_made_with_its_head_node_and_static_nodes_and_its_stack_tells_so(
    cloud: QueueCloud, cluster: str
) -> None:
    found = cloud.api.describe(cluster)
    assert (found.cluster_status, found.compute_fleet_status) == ("CREATE_COMPLETE", "RUNNING")
    assert found.head_node is not None
    assert sorted(one.node_type for one in cloud.api.instances(cluster)) == [
        "ComputeNode", "ComputeNode", "ComputeNode", "HeadNode",
    ]  # fmt: skip
    stack = [one for one in cloud.api.stack_events(cluster) if one.logical_resource_id == cluster]
    assert [one.resource_status for one in stack] == ["CREATE_COMPLETE", "CREATE_IN_PROGRESS"]
    logs = {one.log_stream_name.split(".")[-1] for one in cloud.api.log_streams(cluster)}
    assert {"cfn-init", "cloud-init-output"} <= logs


def test_static_nodes_are_idle_and_the_others_powered_down(cloud: QueueCloud, cluster: str) -> None:
    states = cloud.states(cluster)
    assert {name for name, state in states.items() if state == "idle"} == {
        f"steady-st-nodes-{number}" for number in (1, 2, 3)
    }
    assert {name for name, state in states.items() if state == "idle~"} == {
        "zero-dy-nodes-1", "zero-dy-nodes-2", "spot-dy-nodes-1", "spot-dy-nodes-2",
    }  # fmt: skip


def test_a_command_runs_on_the_head_node_as_systems_manager_runs_it(
    cloud: QueueCloud, cluster: str
) -> None:
    ssm, head = cloud.aws("ssm"), cloud.api.describe(cluster).head_node
    assert head is not None
    line = "/opt/trainyard/bin/trainyard-agent nodes"
    command = ssm.send_command(
        InstanceIds=[head.instance_id],
        DocumentName="AWS-RunShellScript",
        TimeoutSeconds=30,
        Parameters={"commands": [line], "executionTimeout": ["30"]},
    )["Command"]["CommandId"]
    asked = {"CommandId": command, "InstanceId": head.instance_id}

    def ended() -> Any:
        try:
            found = ssm.get_command_invocation(**asked)
        except ssm.exceptions.InvocationDoesNotExist:
            return None
        return found if found["Status"] not in ("Pending", "InProgress") else None

    answer = eventually("the command ended", ended)
    assert (answer["Status"], answer["ResponseCode"]) == ("Success", 0)
    nodes = json.loads(answer["StandardOutputContent"])["nodes"]
    linked = [node["node"] for node in nodes if node.get("agent") == "linked"]
    assert {f"steady-st-nodes-{number}" for number in (1, 2, 3)} <= set(linked)
    with pytest.raises(ClientError, match="InvalidInstanceId"):
        ssm.send_command(
            InstanceIds=["i-00000000000000000"],
            DocumentName="AWS-RunShellScript",
            Parameters={"commands": ["true"]},
        )


def test_the_api_refuses_as_parallelclusters_own_does(cloud: QueueCloud, cluster: str) -> None:
    text = json.dumps({"Image": {"Os": "ubuntu2204"}, "Scheduling": {"SlurmQueues": []}})
    with pytest.raises(Invalid, match="Missing data for required field"):
        cloud.api.dry_run("other", text)
    with pytest.raises(errors.ClusterExists, match="already exists"):
        cloud.api.dry_run(cluster, text)
    with pytest.raises(Gone, match="nobody"):
        cloud.api.describe("nobody")
    url = f"{cloud.system.local['endpoint']}/_parallelcluster/v3/clusters"
    assert httpx.get(url).status_code == 403, "unsigned"


def test_a_run_goes_on_upon_the_static_node_beyond_it_when_one_is_lost(
    cloud: QueueCloud, cluster: str
) -> None:
    system = cloud.system
    job = light_job(nodes=2, steps=STEPS, step_seconds=0.2)
    run_id = system.submit("lost", job | {"partition": "steady"}, cluster)
    run = system.training(run_id, checkpoints=1)
    lost = run["attempts"][0]["nodes"][0]
    system.fault("kill-node", cluster, node=lost)
    run = system.ended(run_id, "Succeeded", 120)
    assert system.value(run_id) == total(STEPS)
    first, second = run["attempts"]
    assert lost not in second["nodes"]
    assert {*first["nodes"], *second["nodes"]} == {
        f"steady-st-nodes-{number}" for number in (1, 2, 3)
    }
    eventually(
        "another instance took the lost node's place",
        lambda: cloud.states(cluster).get(lost) == "idle",
        60,
    )
    log = cloud.log(cluster, "slurmctld")
    launched = log.count(f"node {lost} reason set to: Static node maintenance")
    assert launched == 2, "with the cluster, and once for the lost one"
    assert "Unable to resolve" not in log, "slurmctld would answer nobody for ten seconds"


def test_a_job_powers_nodes_up_from_zero_and_powered_down_ones_are_no_losses(
    cloud: QueueCloud, cluster: str
) -> None:
    system = cloud.system
    job = light_job(nodes=1, steps=3, step_seconds=0.1)
    run_id = system.submit("from-zero", job | {"partition": "zero"}, cluster)
    run = system.ended(run_id, "Succeeded", 150)
    (attempt,) = run["attempts"]
    assert attempt["nodes"] == ["zero-dy-nodes-1"]
    assert "prolog_running_decr: Configuration for" in cloud.log(cluster, "slurmctld"), (
        "the job began when its machine was up, and not at Slurm's next look"
    )
    (started,) = system.timeline(run_id, "AttemptStarted")
    assert "zero-dy-nodes-1" in started["message"].partition(".")[2], started["message"]
    cloud.slurm(cluster, "scontrol", "update", "nodename=zero-dy-nodes-1", "state=power_down")
    eventually("its instance is gone", lambda: cloud.workers(cluster, "zero") == [], 60)
    assert system.timeline(run_id, "NodeLost") == []


def test_a_spot_node_that_ec2_takes_back_costs_no_step(cloud: QueueCloud, cluster: str) -> None:
    system = cloud.system
    job = light_job(nodes=1, steps=150, step_seconds=0.2, every=1000)
    run_id = system.submit("spot", job | {"partition": "spot"}, cluster)
    system.training(run_id, seconds=150)
    system.fault("interrupt-spot", cluster, node="spot-dy-nodes-1")
    run = system.ended(run_id, "Succeeded", 240)
    assert system.value(run_id) == total(150)
    assert "EC2 takes the spot instance" in run["attempts"][0]["reason"], run["attempts"]
    (resumed,) = system.timeline(run_id, "Resumed")
    assert "so no step is lost" in resumed["message"]


def test_capacity_that_ec2_lacks_is_the_nodes_reason_and_in_the_log(
    cloud: QueueCloud, cluster: str
) -> None:
    system = cloud.system
    system.api.job_fault("no-capacity", instance_type="c5.xlarge")
    try:
        job = cloud.slurm(
            cluster, "sbatch", "--parsable", "-p", "zero", "-N1", "--wrap", "true"
        ).strip()
        reason = "(Code:InsufficientInstanceCapacity)"
        eventually(
            "the node has the reason",
            lambda: reason in cloud.slurm(cluster, "scontrol", "-o", "show", "nodes"),
            60,
        )
        cloud.slurm(cluster, "scancel", job)
    finally:
        system.api.job_fault("restore-capacity", instance_type="c5.xlarge")
    stream = next(
        one.log_stream_name
        for one in cloud.api.log_streams(cluster)
        if one.log_stream_name.endswith("slurm_resume_events")
    )
    (line, *_) = [json.loads(one.message) for one in cloud.api.log_tail(cluster, stream, 1)]
    assert line["event-type"] == "node-launch-failure-count"
    assert line["detail"]["failure-type"] == "ice-failures"
    eventually(
        "the queue may be asked again",
        lambda: cloud.states(cluster).get("zero-dy-nodes-1") == "idle~",
        60,
    )


def test_a_deleted_cluster_is_gone_with_all_of_its_processes(
    cloud: QueueCloud, cluster: str
) -> None:
    directory = cloud.directory(cluster)
    cloud.system.api.delete_cluster(cluster)

    def gone() -> bool:
        try:
            cloud.api.describe(cluster)
        except Gone:
            return True
        return False

    eventually("the API knows it no more", gone, 60)
    assert not directory.exists()
