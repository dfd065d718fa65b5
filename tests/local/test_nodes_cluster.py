"""HyperPod on the local cloud: clusters of real nodes, against boto3 and botocore's model."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator
from tests.support.node_cloud import ROLE, NodeCloud
from tests.support.waiting import eventually

from sam_on_moto.inside.calls import read_prefix
from trainyard_contracts.files import AgentConfig
from trainyard_contracts.hyperpod import ClusterStateChange
from trainyard_local.hyperpod.cluster import LocalCluster
from trainyard_local.nodes.node import Node
from trainyard_local.slurm import loopback


@pytest.fixture(scope="module")
def cluster(nodes: NodeCloud) -> LocalCluster:
    return nodes.create("main-cluster", workers=2)


def valid(operation: str, answer: object) -> None:
    shape = (
        botocore.session.get_session()
        .get_service_model("sagemaker")
        .operation_model(operation)
        .output_shape
    )
    assert ParamValidator().validate(answer, shape).generate_report() == ""


def without_metadata(answer: dict) -> dict:
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}


def refusal(call, **params) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_every_answer_is_valid_against_botocores_model(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    sagemaker = nodes.sagemaker
    described = without_metadata(sagemaker.describe_cluster(ClusterName="main-cluster"))
    listed = without_metadata(sagemaker.list_cluster_nodes(ClusterName=cluster.arn))
    node_id = listed["ClusterNodeSummaries"][0]["InstanceId"]
    node = without_metadata(
        sagemaker.describe_cluster_node(ClusterName="main-cluster", NodeId=node_id)
    )
    events = without_metadata(sagemaker.list_cluster_events(ClusterName="main-cluster"))
    event_id = events["Events"][0]["EventId"]
    event = without_metadata(
        sagemaker.describe_cluster_event(ClusterName="main-cluster", EventId=event_id)
    )
    for operation, answer in {
        "DescribeCluster": described, "ListClusterNodes": listed, "DescribeClusterNode": node,
        "ListClusterEvents": events, "DescribeClusterEvent": event,
        "ListClusters": without_metadata(sagemaker.list_clusters()),
    }.items():  # fmt: skip
        valid(operation, answer)
    counts = {
        group["InstanceGroupName"]: (group["CurrentCount"], group["TargetCount"])
        for group in described["InstanceGroups"]
    }
    assert counts == {"controller-group": (1, 1), "workers": (2, 2)}
    assert node["NodeDetails"]["PrivatePrimaryIp"].startswith("127.")
    assert len(node_id) == 19


def test_nodes_are_listed_page_by_page(nodes: NodeCloud, cluster: LocalCluster) -> None:
    pages = list(
        nodes.sagemaker.get_paginator("list_cluster_nodes").paginate(
            ClusterName="main-cluster", PaginationConfig={"PageSize": 2}
        )
    )
    assert [len(page["ClusterNodeSummaries"]) for page in pages] == [2, 1]


def test_a_cluster_keeps_its_tags(nodes: NodeCloud, cluster: LocalCluster) -> None:
    nodes.sagemaker.add_tags(
        ResourceArn=cluster.arn, Tags=[{"Key": "trainyard:stage", "Value": "x"}]
    )
    assert nodes.sagemaker.list_tags(ResourceArn=cluster.arn)["Tags"] == [
        {"Key": "trainyard:stage", "Value": "x"}
    ]


def test_the_state_change_event_parses_by_the_contract(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    kind, detail = next(
        event for event in nodes.events if event[1].get("ClusterStatus") == "InService"
    )
    event = ClusterStateChange.model_validate(detail)
    assert kind == "SageMaker HyperPod Cluster State Change"
    assert (event.cluster_name, event.cluster_arn) == ("main-cluster", cluster.arn)
    assert nodes.statuses("main-cluster")[:2] == ["Creating", "InService"]


def test_every_node_has_a_valid_agent_configuration_and_hyperpods_resource_config(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    for node in cluster.members():
        config = AgentConfig.model_validate_json(
            (node.root / "etc/trainyard/agent.json").read_bytes()
        )
        assert (config.node_name, config.instance_id, config.cluster_arn) == (
            node.name,
            node.instance_id,
            cluster.arn,
        )
        assert config.role == ("controller" if node is cluster.controller else "worker")
        assert Path(config.key_file).read_text() == "k" * 64
        assert os.stat(config.key_file).st_mode & 0o777 == 0o600
        assert Path(config.shared_root) == cluster.shared == (node.root / "fsx").resolve()
        resources = json.loads((node.root / "opt/ml/config/resource_config.json").read_text())
        assert resources["ClusterConfig"] == {
            "ClusterName": "main-cluster",
            "ClusterArn": cluster.arn,
        }
        assert {group["Name"] for group in resources["InstanceGroups"]} == {
            "controller-group",
            "workers",
        }


def test_users_strings_reach_files_as_data_only(nodes: NodeCloud, cluster: LocalCluster) -> None:
    keys = cluster.members()[0].root / "home/ada/.ssh/authorized_keys"
    assert "$(touch /tmp/pwned)" in keys.read_text()
    assert not Path("/tmp/pwned").exists()


def test_temporary_files_lie_in_the_clusters_directory_at_a_path_short_enough_for_sockets(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    for node in cluster.members():
        made = node.start(
            ["python3", "-c", "import tempfile; print(tempfile.mkstemp()[1])"],
            stdout=subprocess.PIPE,
            text=True,
        )
        path = Path(made.communicate(timeout=120)[0].strip())
        assert path.resolve().parent == cluster.directory.resolve() / "tmp"
        assert len(str(path.parent)) < 40


def test_the_lifecycle_log_is_in_cloudwatch_and_on_the_node(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    node = cluster.members()[0]
    stream = f"LifecycleConfig/{node.group}/{node.instance_id}"
    lines = nodes.logs[f"/aws/sagemaker/Clusters/main-cluster/{cluster.id}:{stream}"]
    assert lines[0] == "[SageMaker] Downloading lifecycle scripts"
    assert lines[-1] == "[SageMaker] The lifecycle scripts succeeded."
    on_node = (node.root / "var/log/trainyard/lifecycle.log").read_text()
    assert "lifecycle finished" in on_node
    assert "skipped: mount -t lustre" in on_node


def test_a_jobs_end_reaches_the_agent_at_once(nodes: NodeCloud, cluster: LocalCluster) -> None:
    job = nodes.submit(cluster, seconds=1)
    assert cluster.controller is not None
    ends = cluster.controller.root / "var/lib/trainyard/job-ends"
    eventually("notify-job-end ran", lambda: ends.exists() and job in ends.read_text().split())
    eventually("idle again", lambda: len(nodes.idle(cluster)) == 2)


def test_slurms_daemons_and_a_running_step_listen_on_loopback_only(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    if not loopback.possible():
        pytest.skip("the host may not be called localhost here, so Slurm binds to every address")
    nodes.submit(cluster, nodes=2)
    found = nodes.listeners()
    assert {"slurmctld", "slurmd", "srun"} <= {name for name, _ in found}
    assert {pair for pair in found if not pair[1].startswith("127.")} == set()
    nodes.slurm(cluster, "scancel", "--full", "--signal=KILL", "--me")
    eventually("idle again", lambda: len(nodes.idle(cluster)) == 2)


def test_killing_a_node_kills_its_job_processes_and_nothing_else(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    nodes.submit(cluster, nodes=2)
    victim, other = nodes.workers(cluster)
    before = {process.pid for process in other.processes() if process.name in ("slurmd", "bash")}
    done = nodes.fault("kill-node", cluster, node=victim.name)
    assert done["killed"] >= 5
    assert victim.processes() == []
    assert nodes.inside(victim.root.resolve()) == []
    assert nodes.inside(other.root.resolve()) != []
    assert before & {process.pid for process in other.processes()}
    assert not victim.connected
    assert (
        nodes.sagemaker.describe_cluster(ClusterName="main-cluster")["ClusterStatus"] == "InService"
    )
    nodes.slurm(cluster, "scancel", "--full", "--signal=KILL", "--me")


def test_a_replaced_node_has_another_id_and_an_empty_disk_but_the_same_name(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    old = nodes.workers(cluster)[0]
    nodes.fault("kill-node", cluster, node=old.name)
    nodes.slurm(cluster, "scontrol", "update", f"nodename={old.name}", "state=down", "reason=test")
    (old.root / "marker").touch()
    answer = nodes.sagemaker.batch_replace_cluster_nodes(
        ClusterName="main-cluster", NodeIds=[old.instance_id]
    )
    assert answer["Successful"] == [old.instance_id]
    fresh = eventually(
        "the new node runs",
        lambda: next(
            (
                n
                for n in nodes.workers(cluster)
                if n.address == old.address and n.status == "Running"
            ),
            None,
        ),
    )
    assert fresh.instance_id != old.instance_id
    assert fresh.name == old.name
    assert not old.root.exists()
    assert not (fresh.root / "marker").exists()
    eventually("the new node is idle in Slurm", lambda: fresh.name in nodes.idle(cluster))


def test_a_rebooted_node_keeps_id_and_disk_and_starts_its_services_without_lifecycle_scripts(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    node = nodes.workers(cluster)[0]
    (node.root / "marker").touch()
    log = (node.root / "var/log/trainyard/lifecycle.log").read_text()
    pids = {process.pid for process in node.processes()}
    nodes.sagemaker.batch_reboot_cluster_nodes(
        ClusterName="main-cluster", NodeIds=[node.instance_id]
    )
    eventually(
        "back in Slurm", lambda: node.status == "Running" and node.name in nodes.idle(cluster)
    )
    assert cluster.nodes[node.instance_id] is node
    assert (node.root / "marker").exists()
    assert (node.root / "var/log/trainyard/lifecycle.log").read_text() == log
    assert not pids & {process.pid for process in node.processes()}


def test_unknown_nodes_and_the_controller_cannot_be_replaced(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    assert cluster.controller is not None
    unknown = "i-0123456789abcdef0"
    ids = [unknown, cluster.controller.instance_id]
    answer = without_metadata(
        nodes.sagemaker.batch_replace_cluster_nodes(ClusterName="main-cluster", NodeIds=ids)
    )
    valid("BatchReplaceClusterNodes", answer)
    assert {failed["NodeId"]: failed["ErrorCode"] for failed in answer["Failed"]} == {
        unknown: "InstanceIdNotFound", cluster.controller.instance_id: "InvalidInstanceStatus",
    }  # fmt: skip
    assert "Successful" not in answer


def test_a_stopped_agent_stays_down_until_it_is_started_and_slurm_goes_on(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    node = nodes.workers(cluster)[0]
    started = node.root / "var/lib/trainyard/agent-started"
    first = eventually("agent runs", lambda: started.exists() and started.read_text().split())
    assert nodes.fault("stop-agent", cluster, node=node.instance_id)["killed"] >= 2
    assert {process.name for process in node.processes()} == {
        "slurmd",
        "bash",
    }  # and what starts it again
    nodes.fault("start-agent", cluster, node=node.name)
    eventually("agent runs again", lambda: len(started.read_text().split()) > len(first))


def test_an_agent_that_dies_is_started_again(nodes: NodeCloud, cluster: LocalCluster) -> None:
    node = nodes.workers(cluster)[1]
    started = node.root / "var/lib/trainyard/agent-started"
    pids = eventually("agent runs", lambda: started.exists() and started.read_text().split())
    os.kill(int(pids[-1]), 9)
    eventually("supervised restart", lambda: len(started.read_text().split()) > len(pids))


def _another(node: Node, name: str, before: int) -> set[int]:
    return {process.pid for process in node.processes() if process.name == name} - {before}


def test_a_munge_daemon_that_dies_is_started_again_with_the_same_key(nodes: NodeCloud) -> None:
    cluster = nodes.create("munge-cluster", workers=1)
    job = nodes.submit(cluster)
    key = (cluster.home / "munge/key").read_bytes()
    first = cluster.munge
    assert first is not None
    first.kill()
    eventually(
        "Slurm",
        lambda: (
            cluster.munge is not first
            and nodes.slurm(cluster, "squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
        ),
        60,
    )
    assert (cluster.home / "munge/key").read_bytes() == key
    second = nodes.submit(cluster) if len(nodes.idle(cluster)) else ""
    assert second == "", "the one worker is still the first job's"
    nodes.slurm(cluster, "scancel", job)
    eventually("a job can be ended again", lambda: nodes.idle(cluster), 60)
    nodes.delete("munge-cluster")


def test_a_slurm_daemon_that_dies_is_started_again_and_the_job_goes_on(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    assert cluster.controller is not None
    state = cluster.controller.root / "var/spool/slurmctld/job_state"
    job, now = nodes.submit(cluster, nodes=1), time.time()
    eventually("slurmctld saved its state", lambda: state.exists() and state.stat().st_mtime > now)
    for node, name in (
        (cluster.controller, "slurmctld"),
        *((worker, "slurmd") for worker in nodes.workers(cluster)),
    ):
        [before] = [process.pid for process in node.processes() if process.name == name]
        os.kill(before, 9)
        eventually(f"{name} runs again", partial(_another, node, name, before))
    eventually(
        "the job still runs",
        lambda: nodes.slurm(cluster, "squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING",
    )
    assert len(nodes.sleeping(cluster)) == 1
    nodes.slurm(cluster, "scancel", job)
    eventually(
        "every node is idle again", lambda: len(nodes.idle(cluster)) == len(nodes.workers(cluster))
    )


def test_a_killed_process_is_a_training_process_of_the_named_run(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    nodes.submit(cluster, nodes=1, TRAINYARD_RUN_ID="run-one", LOCAL_RANK="0", RANK="0")
    done = nodes.fault("kill-process", cluster, run="run-one")
    assert (
        not Path(f"/proc/{done['pid']}/cmdline").exists()
        or Path(f"/proc/{done['pid']}/cmdline").read_bytes() == b""
    )
    nodes.slurm(cluster, "scancel", "--me")
    eventually("idle again", lambda: len(nodes.idle(cluster)) == 2)


def test_a_fault_that_cannot_be_says_what_is_there(nodes: NodeCloud, cluster: LocalCluster) -> None:
    eventually("no job process is left", lambda: not nodes.of_jobs(cluster))
    for request, words in {
        ("explode", ""): "use one of kill-node",
        ("kill-node", "nobody"): nodes.workers(cluster)[0].name,
        ("kill-process", ""): "no job runs on cluster main-cluster",
        ("corrupt-checkpoint", ""): "has no checkpoint on cluster main-cluster yet",
    }.items():
        with pytest.raises(ValueError, match=words):
            nodes.fault(request[0], cluster, node=request[1])


def test_the_newest_checkpoint_is_corrupted(nodes: NodeCloud, cluster: LocalCluster) -> None:
    directory = cluster.shared / "trainyard/runs/run-one/checkpoints"
    for name in (
        "step-000000000010-attempt-1",
        "step-000000000020-attempt-1",
        ".tmp-step-000000000030-attempt-1",
    ):
        (directory / name).mkdir(parents=True)
        (directory / name / "model.pt").write_bytes(b"x" * 100)
        (directory / name / "manifest.json").write_bytes(b"y" * 1000)
    done = nodes.fault("corrupt-checkpoint", cluster, run="run-one")
    assert done["step"] == 20
    assert (directory / "step-000000000020-attempt-1/model.pt").read_bytes() == b"x" * 50 + bytes(
        [ord("x") ^ 0xFF]
    ) * 16 + b"x" * 34
    assert (directory / "step-000000000010-attempt-1/model.pt").read_bytes() == b"x" * 100
    earlier = cluster.shared / "trainyard/runs/run-000/checkpoints/step-000000000999-attempt-1"
    earlier.mkdir(parents=True)
    (earlier / "model.pt").write_bytes(b"x")
    nodes.fault(
        "corrupt-checkpoint", cluster, how="truncate"
    )  # of the newest run, not of the run that came furthest
    assert len((directory / "step-000000000020-attempt-1/model.pt").read_bytes()) == 50


def test_more_workers_join_when_a_group_is_scaled_up_and_leave_when_down(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    group = next(
        group
        for group in nodes.request("main-cluster")["InstanceGroups"]
        if group["InstanceGroupName"] == "workers"
    )
    nodes.sagemaker.update_cluster(
        ClusterName="main-cluster", InstanceGroups=[{**group, "InstanceCount": 3}]
    )
    eventually("three idle nodes", lambda: len(nodes.idle(cluster)) == 3)
    nodes.sagemaker.update_cluster(
        ClusterName="main-cluster", InstanceGroups=[{**group, "InstanceCount": 2}]
    )
    eventually(
        "two idle nodes", lambda: len(nodes.workers(cluster)) == 2 and len(nodes.idle(cluster)) == 2
    )


def test_invalid_requests_are_refused_in_awss_words(nodes: NodeCloud) -> None:
    create = nodes.sagemaker.create_cluster
    good = nodes.request("refused")
    controller, workers = good["InstanceGroups"]
    cases = {
        "Member must satisfy regular expression pattern": {**good, "ClusterName": "under_score"},
        "Member must have length less than or equal to 63": {**good, "ClusterName": "x" * 64},
        "Cluster must have exactly one InstanceGroup with Controller node type": {
            **good, "InstanceGroups": [workers],
        },
        "Partitions can only be assigned to Compute node types": {
            **good, "InstanceGroups": [
                {**controller,
                 "SlurmConfig": {"NodeType": "Controller", "PartitionNames": ["main"]}},
                workers,
            ],
        },
        "FSx configurations are only supported for Custom VPC": {
            **good,
            "InstanceGroups": [controller, {**workers, "InstanceStorageConfigs": [
                {"FsxLustreConfig": {"DnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
                                     "MountName": "abc"}}]}],
        },
        "SlurmConfigStrategy is not supported": {
            **good, "Orchestrator": {"Slurm": {"SlurmConfigStrategy": "Merge"}},
        },
        "Member must satisfy enum value set": {
            **good, "InstanceGroups": [controller, {**workers, "InstanceType": "ml.none.large"}],
        },
        "must be unique": {**good, "InstanceGroups": [controller, workers, workers]},
    }  # fmt: skip
    for words, request in cases.items():
        code, message = refusal(create, **request)
        assert code == "ValidationException", message
        assert words in message
    assert refusal(create, **nodes.request("refused", workers=500))[0] == "ResourceLimitExceeded"
    assert "refused" not in nodes.hyperpod.clusters
    assert ROLE in json.dumps(good)


def test_a_cluster_that_is_not_there_is_not_found(nodes: NodeCloud) -> None:
    for call in (
        nodes.sagemaker.describe_cluster,
        nodes.sagemaker.delete_cluster,
        nodes.sagemaker.list_cluster_nodes,
    ):
        assert refusal(call, ClusterName="absent")[0] == "ResourceNotFound"


def test_a_name_stays_taken_until_its_deletion_is_over(nodes: NodeCloud) -> None:
    request = nodes.request("twice", workers=1)
    nodes.sagemaker.create_cluster(**request)
    assert refusal(nodes.sagemaker.create_cluster, **request)[0] == "ResourceInUse"
    assert refusal(nodes.sagemaker.delete_cluster, ClusterName="twice")[0] == "ConflictException"
    cluster = nodes.hyperpod.find("twice")
    eventually("in service", lambda: cluster.status == "InService")
    nodes.sagemaker.delete_cluster(ClusterName="twice")
    if "twice" in nodes.hyperpod.clusters:
        assert refusal(nodes.sagemaker.create_cluster, **request)[0] == "ResourceInUse"
    eventually("deleted", lambda: "twice" not in nodes.hyperpod.clusters)
    assert not cluster.directory.exists()
    nodes.create("twice", workers=1)
    nodes.delete("twice")
    assert nodes.statuses("twice").count("Deleting") == 4


def test_a_cluster_whose_lifecycle_bucket_is_missing_fails_and_can_be_deleted(
    nodes: NodeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        nodes, "read_prefix", lambda bucket, prefix: read_prefix("no-such-bucket", prefix)
    )
    nodes.sagemaker.create_cluster(**nodes.request("bucketless", workers=1))
    cluster = nodes.hyperpod.find("bucketless")
    eventually("failed", lambda: cluster.status == "Failed")
    described = nodes.sagemaker.describe_cluster(ClusterName="bucketless")
    assert "The specified bucket does not exist" in described["FailureMessage"]
    nodes.delete("bucketless")


def test_a_failing_lifecycle_script_fails_the_cluster_with_awss_message_and_the_log_says_why(
    nodes: NodeCloud,
) -> None:
    good = nodes.files["cluster.json"]
    nodes.files["cluster.json"] = json.dumps(
        {**json.loads(good), "secretName": "no/such/secret"}
    ).encode()
    nodes.sagemaker.create_cluster(**nodes.request("broken", workers=1))
    cluster = nodes.hyperpod.find("broken")
    eventually("failed", lambda: cluster.status == "Failed")
    nodes.files["cluster.json"] = good
    described = nodes.sagemaker.describe_cluster(ClusterName="broken")
    assert (
        'failed to provision with the following error: "Lifecycle scripts did not run successfully.'
        in described["FailureMessage"]
    )
    log = nodes.log_text(cluster)
    assert "FAILED in step 'cluster key': secret 'no/such/secret' cannot be read" in log
    assert "on_create.sh exited with status 1" in log
    assert all(node.processes() == [] for node in cluster.members())
    nodes.delete("broken")
    assert not cluster.directory.exists()


def test_an_all_at_once_cluster_rolls_back_when_a_worker_fails_silently(nodes: NodeCloud) -> None:
    good = nodes.files["on_create.sh"]
    nodes.files["on_create.sh"] = (
        b"#!/bin/bash\n[[ $TRAINYARD_ADDRESS == *.10 ]] || exit 7\n"
        b'exec bash "$(dirname "$0")/real.sh"\n'
    )
    nodes.files["real.sh"] = good.replace(b"BASH_SOURCE[0]", b"BASH_SOURCE[0]")
    request = nodes.request("together", workers=1)
    del request["NodeProvisioningMode"]
    nodes.sagemaker.create_cluster(**request)
    cluster = nodes.hyperpod.find("together")
    eventually("failed", lambda: cluster.status == "Failed")
    nodes.files["on_create.sh"] = good
    del nodes.files["real.sh"]
    assert nodes.statuses("together") == ["Creating", "RollingBack", "Failed"]
    assert "on_create.sh exited with status 7" in nodes.log_text(cluster)
    assert cluster.members() == []
    assert (
        refusal(nodes.sagemaker.list_cluster_events, ClusterName="together")[0]
        == "ValidationException"
    )
    nodes.delete("together")


def raising(
    nodes: NodeCloud, times: int, role: str = "Node"
) -> Callable[[str, str], dict[str, str]]:
    """Impossible credentials, so often, for nodes of that role: a defect of the local cloud."""
    give, left = nodes.cloud.access.environment, iter(range(times))

    def credentials(arn: str, name: str) -> dict[str, str]:
        if arn.endswith(f"/{role}") and next(left, None) is not None:
            raise KeyError("no such role")
        return give(arn, name)

    return credentials


@pytest.mark.parametrize("mode", ["Continuous", None])
def test_a_launch_that_raises_fails_the_cluster_with_the_reason(
    nodes: NodeCloud, monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    request = nodes.request("raising", workers=1)
    if mode is None:
        del request["NodeProvisioningMode"]
        request["InstanceGroups"][1]["ExecutionRole"] += "OfWorkers"
    monkeypatch.setattr(
        nodes.cloud.access, "environment", raising(nodes, 1, "Node" if mode else "NodeOfWorkers")
    )
    nodes.sagemaker.create_cluster(**request)
    cluster = nodes.hyperpod.find("raising")
    eventually("failed", lambda: cluster.status == "Failed")
    described = nodes.sagemaker.describe_cluster(ClusterName="raising")
    assert "failed to provision" in described["FailureMessage"]
    assert (
        "The instance could not be prepared: KeyError: 'no such role'"
        in described["FailureMessage"]
    )
    assert "The instance could not be prepared: KeyError: 'no such role'" in nodes.log_text(cluster)
    nodes.delete("raising")


def test_a_worker_whose_launch_raises_is_retried_as_any_other(
    nodes: NodeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = nodes.request("raising-worker", workers=1)
    request["InstanceGroups"][1]["ExecutionRole"] += "OfWorkers"
    monkeypatch.setattr(nodes.cloud.access, "environment", raising(nodes, 1, "NodeOfWorkers"))
    nodes.sagemaker.create_cluster(**request)
    cluster = nodes.hyperpod.find("raising-worker")
    eventually(
        "the worker failed",
        lambda: any("Failed to provision" in event["Description"] for event in cluster.events),
    )
    eventually("the retry came up", lambda: len(nodes.idle(cluster)) == 1)
    nodes.delete("raising-worker")


def test_a_node_that_does_not_boot_again_says_so(
    nodes: NodeCloud, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_boot(self: Node, timeout_seconds: float = 0.0) -> None:
        raise OSError("the machine did not boot")

    node = nodes.workers(cluster)[0]
    with monkeypatch.context() as broken:
        broken.setattr(Node, "start_services", no_boot)
        nodes.sagemaker.batch_reboot_cluster_nodes(
            ClusterName="main-cluster", NodeIds=[node.instance_id]
        )
        eventually("the failure", lambda: node.status == "Failure")
    assert "the machine did not boot" in node.message
    nodes.sagemaker.batch_reboot_cluster_nodes(
        ClusterName="main-cluster", NodeIds=[node.instance_id]
    )
    eventually("it runs again", lambda: node.status == "Running" and node.message == "")
    eventually(
        "every worker serves", lambda: len(nodes.idle(cluster)) == len(nodes.workers(cluster))
    )


def test_a_continuous_worker_that_fails_is_retried_until_it_comes_up(nodes: NodeCloud) -> None:
    good = nodes.files["on_create.sh"]
    nodes.files["on_create.sh"] = good.replace(
        b"set -euo pipefail", b"set -euo pipefail\n[[ $TRAINYARD_ADDRESS == *.10 ]] || exit 3", 1
    )
    nodes.sagemaker.create_cluster(**nodes.request("patient", workers=1))
    cluster = nodes.hyperpod.find("patient")
    eventually(
        "a worker failed",
        lambda: any("Failed to provision" in event["Description"] for event in cluster.events),
    )
    assert cluster.status == "InService", nodes.log_text(cluster)
    nodes.files["on_create.sh"] = good
    eventually("the retry came up", lambda: len(nodes.idle(cluster)) == 1)
    nodes.delete("patient")
