"""Clusters in trouble while made, idle or going: a clear end, and nothing left that costs money."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System, eventually, light_job, signal_all, total

from trainyard_cli.problems import ApiProblem

QUICK = light_job(1, steps=4, every=2)
#: What a worker does instead of its lifecycle script.
SILENT_FAILURE = "exit 3"
HANG = "echo 'waiting for a license server'; exec sleep infinity"
#: Entry script that is the real one on the controller, and does something else on workers.
ENTRY = """#!/bin/bash
python3 - "$SAGEMAKER_RESOURCE_CONFIG_PATH" "$TRAINYARD_ADDRESS" <<'END' \
&& exec bash "$(dirname "$0")/real.sh"
import json, sys
groups = json.load(open(sys.argv[1]))["InstanceGroups"]
sys.exit(any(
    node["CustomerIpAddress"] == sys.argv[2]
    for group in groups if group["Name"] == "workers"
    for node in group["Instances"] or []
))
END
{}
"""
#: The real script, after a time in which it can be disturbed.
SLOW = """#!/bin/bash
echo 'about to begin'
sleep 3
exec bash "$(dirname "$0")/real.sh"
"""


def test_a_lifecycle_script_that_fails_is_told_with_its_reason_and_its_log(system: System) -> None:
    # The mount path is a file that an earlier step writes, so a step fails as any step could.
    users = [{"name": "ada", "uid": 2001, "sshKeys": ["ssh-ed25519 AAAA ada"]}]
    mounts = [{"bucket": "some-data", "mountPath": "/home/ada/.ssh/authorized_keys"}]
    run_id = system.submit(
        "broken-script", QUICK, cluster_spec("broken-script", users=users, s3Mounts=mounts)
    )
    run = system.ended(run_id, "Failed")
    assert run["problem"]["code"] == "lifecycle-failed"
    assert (
        "Lifecycle scripts did not run successfully" in run["problem"]["detail"]
    )  # AWS's own words
    assert (
        "FAILED in step 'bucket mounts'" in run["problem"]["detail"]
    )  # the end of the script's log
    assert run["attempts"] == []
    log = system.api.logs(run_id, kind="lifecycle")
    assert log["source"] == "cloudwatch"
    assert "FAILED in step 'bucket mounts'" in log["text"]
    system.assert_gone(system.api.cluster(run["clusterName"]))


def test_a_lifecycle_script_that_fails_without_a_word_is_told_with_its_exit_status(
    system: System,
) -> None:
    run_id = system.submit("silent-script", QUICK, cluster_spec("silent-script"))
    cluster = replace_script(system, run_id, ENTRY.format(SILENT_FAILURE))
    run = system.ended(run_id, "Failed")
    assert run["problem"]["code"] == "lifecycle-failed"
    assert "exited with status 3" in run["problem"]["detail"]
    system.assert_gone(system.api.cluster(cluster["name"]))


def test_a_lifecycle_script_that_hangs_ends_at_the_deadline_of_the_run(system: System) -> None:
    limits = {"clusterDeadlineSeconds": 30}
    run_id = system.submit("hanging-script", QUICK, cluster_spec("hanging-script"), limits=limits)
    cluster = replace_script(system, run_id, ENTRY.format(HANG))
    run = system.ended(run_id, "Failed")
    assert run["problem"]["code"] == "cluster-deadline"
    assert "not ready within 30 s" in run["problem"]["detail"]
    assert "waiting for a license server" in run["problem"]["detail"]
    system.assert_gone(system.api.cluster(cluster["name"]))


def test_a_controller_killed_while_its_cluster_is_created_fails_the_run_and_leaves_nothing(
    system: System,
) -> None:
    run_id = system.submit("no-controller", QUICK, cluster_spec("no-controller"))
    cluster = replace_script(system, run_id, SLOW)
    controller = eventually(
        "the controller's scripts run", lambda: starting(system, cluster, "controller")
    )
    system.fault("kill-node", cluster["name"], node=controller["instanceId"])
    run = system.ended(run_id, "Failed")
    assert run["problem"]["code"] == "lifecycle-failed"
    assert controller["instanceId"] in run["problem"]["detail"]
    system.assert_gone(system.api.cluster(cluster["name"]))


def test_a_worker_killed_while_its_cluster_is_created_is_made_again(system: System) -> None:
    run_id = system.submit("new-worker", QUICK, cluster_spec("new-worker"))
    cluster = replace_script(system, run_id, SLOW)
    worker = eventually("the worker's scripts run", lambda: starting(system, cluster, "worker"), 60)
    system.fault("kill-node", cluster["name"], node=worker["instanceId"])
    run = system.ended(run_id, "Succeeded", 120)
    assert system.timeline(run_id, "LifecycleFailed")
    assert system.value(run_id) == total(4)
    system.assert_gone(system.api.cluster(run["clusterName"]))


def test_a_run_cancelled_while_its_cluster_is_made_ends_and_the_cluster_goes(
    system: System,
) -> None:
    run_id = system.submit("early-cancel", QUICK, cluster_spec("early-cancel"))
    cluster = creating(system, run_id)
    system.api.cancel_run(run_id)
    system.api.cancel_run(run_id)
    run = system.ended(run_id, "Cancelled")
    assert run["problem"]["code"] == "cancelled"
    assert run["attempts"] == []
    assert run["clusterDeleted"]
    system.assert_gone(system.api.cluster(cluster["name"]))


def test_a_node_killed_while_its_cluster_is_deleted_changes_nothing(system: System) -> None:
    system.api.create_cluster(cluster_spec("going"))
    cluster = system.cluster_ready("going")
    worker = next(node for node in system.api.nodes("going") if node["role"] == "worker")
    system.api.delete_cluster("going")
    signal_all(
        [process.pid for process in system.processes(TRAINYARD_NODE=worker["instanceId"])],
        signal.SIGKILL,
    )
    system.assert_gone(cluster)
    with pytest.raises(ApiProblem) as told:
        system.submit("too-late", QUICK, "going")
    assert told.value.status == 409


def test_shell_metacharacters_in_a_key_arrive_on_the_nodes_as_data(system: System) -> None:
    key = """ssh-ed25519 AAAA'"`$(touch /tmp/x)`; rm -rf ~ && a | b > c & {d} \\n %s ${HOME} 雪"""
    users = [{"name": "ada", "uid": 2000, "sshKeys": [key]}]
    system.api.create_cluster(cluster_spec("hostile-key", users=users))
    cluster = system.cluster_ready("hostile-key")
    home = system.state_dir / "clusters" / cluster["arn"].rsplit("/", 1)[-1] / "nodes"
    for node in system.api.nodes("hostile-key"):
        assert (
            home / node["instanceId"] / "root/home/ada/.ssh/authorized_keys"
        ).read_text() == f"{key}\n"
    system.api.delete_cluster("hostile-key")
    system.assert_gone(cluster)


def test_an_idle_cluster_is_deleted_by_the_sweep_and_one_in_use_is_not(system: System) -> None:
    system.api.create_cluster(cluster_spec("idle", idleLimitSeconds=60))
    cluster = system.cluster_ready("idle")
    run_id = system.submit("uses-it", light_job(1, steps=4, every=2, hold_at=3), "idle")
    system.training(run_id)
    age(system, "idle", timedelta(minutes=5))
    system.sweep()
    assert system.api.cluster("idle")["status"] == "Ready"
    system.release(run_id)
    system.ended(run_id, "Succeeded")
    age(system, "idle", timedelta(minutes=5))
    system.sweep()
    system.assert_gone(cluster)


def test_an_orphan_is_deleted_when_its_closed_record_proves_it_and_what_no_record_proves_is_kept(
    system: System,
) -> None:
    sagemaker = system.aws("sagemaker")
    for name in ("known", "closed"):
        system.api.create_cluster(cluster_spec(name))
    known, closed = system.cluster_ready("known"), system.cluster_ready("closed")
    request = clone(sagemaker.describe_cluster(ClusterName="known"))
    tags = sagemaker.list_tags(ResourceArn=closed["arn"])["Tags"]
    foreign = [tag for tag in tags if tag["Key"] != "trainyard:stage"]
    system.api.delete_cluster("closed")
    system.assert_gone(closed)
    # As if CreateCluster had been answered after the record was closed: no one wrote its ARN down.
    system.change_document("cluster#closed", "cluster", lambda found: {**found, "arn": None})
    orphan = sagemaker.create_cluster(ClusterName="closed", Tags=tags, **request)["ClusterArn"]
    sagemaker.create_cluster(ClusterName="no-record", Tags=tags, **request)
    sagemaker.create_cluster(ClusterName="somebody-elses", Tags=foreign, **request)
    kept = ("no-record", "somebody-elses")
    # The stack's own sweep may find the orphan before that.
    eventually(
        "those that are kept are in service",
        lambda: [states(system).get(name) for name in kept] == ["InService"] * 2,
    )

    def swept() -> bool:
        system.sweep()
        return "closed" not in system.backend_clusters()

    eventually("the sweep deletes the orphan once it is old enough", swept)
    assert not system.processes(TRAINYARD_CLUSTER=orphan.rsplit("/", 1)[-1])
    system.sweep()
    assert [states(system)[name] for name in kept] == ["InService"] * 2
    assert system.api.cluster("known")["status"] == "Ready"
    for name in kept:
        sagemaker.delete_cluster(ClusterName=name)
    eventually("they are gone", lambda: not set(kept) & set(states(system)))
    system.api.delete_cluster("known")
    system.assert_gone(known)


def test_a_cluster_that_outlived_its_run_is_deleted_by_the_sweep_and_the_timeline_says_so(
    system: System,
) -> None:
    teardown = system.local["outputs"]["RunMachineArn"].removesuffix("-run") + "-teardown"
    with system.denied("StepsRole", "states:StartExecution", teardown):
        run_id = system.submit("no-teardown", QUICK, cluster_spec("no-teardown"))
        run = system.ended(run_id, "Succeeded", 120)
    cluster = system.api.cluster(run["clusterName"])
    assert cluster["status"] == "Ready"
    assert "StartExecution" in system.timeline(run_id, "Trouble")[0]["message"]
    assert not run["clusterDeleted"]
    system.sweep()
    system.assert_gone(cluster)
    told = [entry["type"] for entry in system.timeline(run_id)]
    assert told.index("Succeeded") < told.index("ClusterOverdue") < told.index("ClusterDeleted")
    assert system.api.run(run_id)["clusterDeleted"]


def test_a_cluster_whose_role_may_not_be_made_fails_with_the_reason_and_leaves_nothing(
    system: System,
) -> None:
    with system.denied("StepsRole", "iam:CreateRole"):
        system.api.create_cluster(cluster_spec("no-role"))
        eventually(
            "it failed and is deleted", lambda: system.api.cluster("no-role")["status"] == "Deleted"
        )
    cluster = system.api.cluster("no-role")
    assert "AWS refused to create the role" in cluster["problem"]["detail"]
    system.assert_gone(cluster)


def test_a_stopped_cluster_machine_is_started_again_by_the_sweep(system: System) -> None:
    system.api.create_cluster(cluster_spec("restarted"))
    [arn] = eventually("its machine runs", lambda: system.running("cluster", "restarted"))
    system.aws("stepfunctions").stop_execution(executionArn=arn)

    def ready() -> bool:
        system.sweep()
        return bool(system.api.cluster("restarted")["status"] == "Ready")

    eventually("the sweep's machine finds it ready", ready, 90)
    cluster = system.api.cluster("restarted")
    system.api.delete_cluster("restarted")
    system.assert_gone(cluster)


def creating(system: System, run_id: str) -> Json:
    """The run's cluster as soon as AWS makes it."""
    name = str(system.api.run(run_id)["clusterName"])

    def made() -> Json | None:
        found = [
            cluster
            for cluster in system.api.clusters()
            if cluster["name"] == name and cluster["arn"]
        ]
        return found[0] if found else None

    return dict(eventually(f"cluster {name} is being made", made))


def starting(system: System, cluster: Json, role: str) -> Json | None:
    """A node of this role on which lifecycle scripts run now."""
    nodes = [node for node in system.api.nodes(cluster["name"]) if node["role"] == role]
    return next(
        (
            node
            for node in nodes
            if node["status"] == "Pending" and system.processes(TRAINYARD_NODE=node["instanceId"])
        ),
        None,
    )


def replace_script(system: System, run_id: str, script: str) -> Json:
    """Put another entry script where the nodes look for it, as soon as the real one is there.

    The workers come after that in any case. The real one lies beside it as real.sh.
    """
    name, s3, bucket = (
        system.api.run(run_id)["clusterName"],
        system.aws("s3"),
        system.local["bucket"],
    )
    prefix = f"clusters/{name}/1/lifecycle"
    eventually(
        "the bundle is there",
        lambda: s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/on_create.sh")["KeyCount"],
        poll=0.01,
    )
    s3.copy_object(
        Bucket=bucket, CopySource=f"{bucket}/{prefix}/on_create.sh", Key=f"{prefix}/real.sh"
    )
    s3.put_object(Bucket=bucket, Key=f"{prefix}/on_create.sh", Body=script.encode())
    return creating(system, run_id)


def states(system: System) -> dict[str, str]:
    found = system.aws("sagemaker").list_clusters(MaxResults=100)["ClusterSummaries"]
    return {cluster["ClusterName"]: cluster["ClusterStatus"] for cluster in found}


def clone(described: Any) -> Json:
    """A CreateCluster request that makes the same cluster again."""
    kept = (
        "InstanceGroupName",
        "InstanceType",
        "LifeCycleConfig",
        "ExecutionRole",
        "ThreadsPerCore",
        "SlurmConfig",
    )
    groups = [
        {"InstanceCount": group["TargetCount"], **{key: group[key] for key in kept if key in group}}
        for group in described["InstanceGroups"]
    ]
    return {
        "InstanceGroups": groups,
        "Orchestrator": described["Orchestrator"],
        "NodeProvisioningMode": described["NodeProvisioningMode"],
        "NodeRecovery": described["NodeRecovery"],
    }


def age(system: System, cluster: str, by: timedelta) -> None:
    """Make a cluster's record older, as if nobody had used it for so long."""
    system.change_document(
        f"cluster#{cluster}",
        "cluster",
        lambda found: {**found, **{key: past(found[key], by) for key in TIMES}},
    )
    old = past(datetime.now(timezone.utc).isoformat(), by)
    stamp = datetime.fromisoformat(old).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    system.table.update_item(
        TableName=system.local["table"],
        Key={"pk": {"S": f"cluster#{cluster}"}, "sk": {"S": "cluster"}},
        UpdateExpression="SET lastUsedAt = :at",
        ExpressionAttributeValues={":at": {"S": stamp}},
    )


TIMES = ("createdAt", "readyAt", "lastUsedAt")


def past(at: str, by: timedelta) -> str:
    return (datetime.fromisoformat(at.replace("Z", "+00:00")) - by).isoformat()
