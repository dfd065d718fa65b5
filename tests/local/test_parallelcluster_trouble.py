"""What goes wrong on a ParallelCluster of real nodes, and people who work on it beside runs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.support.queue_cloud import QueueCloud, queue_cloud, queue_spec
from tests.support.system import eventually, light_job, total

from trainyard.backends.parallelcluster.refusals import Gone
from trainyard_cli.problems import ApiProblem
from trainyard_local.nodes import processes as node_processes

pytestmark = pytest.mark.long

NAME, TOOLS = "people", "sagemaker-tools"
STEPS = 60
#: Of the local cloud that these tests start (queue_cloud).
BEAT_SECONDS = 2
BROKEN = {"source": f"s3://{TOOLS}/broken.sh"}
#: Three nodes that always run, a queue whose nodes never boot, and a node for people.
QUEUES: list[dict[str, Any]] = [
    {"name": "steady", "min": 3, "max": 3},
    {"name": "broken", "max": 3, "scripts": [BROKEN]},
]
DOOR = {"name": "door", "instanceType": "c5.large", "subnetId": "subnet-0123456789abcdef0"}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueCloud]:
    few = {"TRAINYARD_LOCAL_PROTECTED_FAILURES": "3"}
    with queue_cloud(tmp_path_factory.mktemp("people"), **few) as found:
        s3 = found.aws("s3")
        s3.create_bucket(Bucket=TOOLS)
        words = b"#!/bin/sh\necho 'the driver is missing' >&2\nexit 3\n"
        s3.put_object(Bucket=TOOLS, Key="broken.sh", Body=words)
        yield found


@pytest.fixture(scope="module")
def cluster(cloud: QueueCloud) -> str:
    cloud.make(queue_spec(NAME, *QUEUES, loginNodes=[DOOR]))
    return NAME


@contextmanager
def at_work(cloud: QueueCloud, cluster: str) -> Iterator[tuple[str, str]]:
    """A person who holds a node with salloc, and runs a step there with srun: job and node."""
    head = cloud.api.describe(cluster).head_node
    assert head is not None
    conf = cloud.directory(cluster) / "nodes" / head.instance_id / "root/opt/slurm/etc/slurm.conf"
    salloc = ["salloc", "--partition=steady", "--nodes=1", "--exclusive", "--job-name=by-hand"]
    person = subprocess.Popen(
        [*salloc, "srun", "sleep", "900"],
        env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(conf)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        found = eventually("the person's step runs", lambda: _by_hand(cloud, cluster), 60)
        yield found[0], found[1]
        assert person.poll() is None, "the person's shell ended"
        assert _by_hand(cloud, cluster) == found, "somebody touched the person's job"
    finally:
        cloud.slurm(cluster, "scancel", "--name=by-hand")
        person.wait(30)


def _by_hand(cloud: QueueCloud, cluster: str) -> tuple[str, str] | None:
    """The person's job and its node, once a step of it runs."""
    steps = cloud.slurm(cluster, "squeue", "-h", "--steps", "-o", "%i %j %N").splitlines()
    job = cloud.slurm(cluster, "squeue", "-h", "--name=by-hand", "-t", "R", "-o", "%i %N").split()
    running = any(line.startswith(f"{job[0]}.0 ") for line in steps) if job else False
    return (job[0], job[1]) if running else None


def test_login_nodes_are_no_workers(cloud: QueueCloud, cluster: str) -> None:
    nodes = {node["group"]: node for node in cloud.system.api.nodes(cluster)}
    assert nodes["door"]["role"] == "login"
    assert not any("door" in name for name in cloud.states(cluster)), "Slurm gives it no job"
    answer = cloud.system.api.replace_node(cluster, nodes["door"]["instanceId"])
    assert "it is no worker" in str(answer["failed"]), answer


def test_a_cluster_has_no_login_nodes_and_no_desktop_unless_it_is_asked_for(
    cloud: QueueCloud,
) -> None:
    plan = cloud.system.api.plan_cluster(queue_spec("plain", {"name": "steady"}))
    configuration = plan["request"]["clusterConfiguration"]
    assert "LoginNodes" not in configuration
    assert "Dcv" not in configuration["HeadNode"]


def test_recovery_never_touches_what_a_person_runs_on_the_same_queue(
    cloud: QueueCloud, cluster: str
) -> None:
    system = cloud.system
    with at_work(cloud, cluster) as (_, theirs):
        job = light_job(nodes=2, steps=STEPS, step_seconds=0.2)
        run_id = system.submit("beside", job | {"partition": "steady"}, cluster)
        run = system.training(run_id, checkpoints=1)
        assert theirs not in run["attempts"][0]["nodes"]
        system.fault("kill-node", cluster, node=run["attempts"][0]["nodes"][0])
        run = system.ended(run_id, "Succeeded", 240)
        assert system.value(run_id) == total(STEPS)
        assert len(run["attempts"]) >= 2, run["attempts"]
        assert not any(theirs in attempt["nodes"] for attempt in run["attempts"])
        lost = [one["message"] for one in system.timeline(run_id, "NodeLost")]
        assert lost
        assert not any(theirs in message for message in lost), lost


def test_a_cluster_that_people_work_on_is_not_deleted_but_by_force(
    cloud: QueueCloud, cluster: str
) -> None:
    with at_work(cloud, cluster):
        began = datetime.now(timezone.utc)

        def told() -> bool:
            """Two beats later, so that what the newest one says was asked for after that."""
            last = datetime.fromisoformat(cloud.system.api.cluster(cluster)["lastHeartbeatAt"])
            return last > began + timedelta(seconds=BEAT_SECONDS)

        eventually("the controller's beat has the person's job", told, 60)
        with pytest.raises(ApiProblem, match="used by people"):
            cloud.system.api.delete_cluster(cluster)


def test_a_queue_whose_nodes_never_boot_is_switched_off_and_the_others_serve(
    cloud: QueueCloud, cluster: str
) -> None:
    system = cloud.system
    steady = light_job(nodes=1, steps=5000, step_seconds=0.1) | {"partition": "steady"}
    meanwhile = system.submit("meanwhile", steady, cluster)
    system.training(meanwhile, seconds=120)
    cloud.slurm(cluster, "sbatch", "-p", "broken", "-N3", "--wrap", "true")
    eventually(
        "protected mode",
        lambda: cloud.api.describe(cluster).compute_fleet_status == "PROTECTED",
        180,
    )
    assert system.api.cluster(cluster)["status"] == "Ready"
    words = "switch queue 'broken' off (ParallelCluster's protected mode)"

    def told() -> bool:
        said = [one["message"] for one in system.timeline(meanwhile, "ClusterEvent")]
        return any("failed to boot (broken-dy-" in one and words in one for one in said)

    eventually("a timeline names it, with the nodes", told, 60)
    system.api.cancel_run(meanwhile)
    system.ended(meanwhile, "Cancelled", 120)
    run_id = system.submit(
        "still", light_job(nodes=1, steps=5, step_seconds=0.1) | {"partition": "steady"}, cluster
    )
    system.ended(run_id, "Succeeded", 120)
    cloud.slurm(cluster, "scancel", "--partition=broken")


def test_a_head_node_that_does_not_boot_is_told_with_the_script_and_its_log(
    cloud: QueueCloud,
) -> None:
    spec = queue_spec("headless", {"name": "steady"})
    spec["headNode"] |= {"scripts": [BROKEN]}
    system = cloud.system
    system.api.create_cluster(spec)
    found = eventually("it failed", lambda: _with_problem(system.api.cluster("headless")), 180)
    assert found["problem"]["code"] == "lifecycle-failed"
    assert BROKEN["source"] in found["problem"]["detail"]
    assert "the driver is missing" in found["problem"]["detail"]
    eventually(
        "it is gone", lambda: system.api.cluster("headless")["status"] in ("Failed", "Deleted"), 60
    )
    eventually("ParallelCluster knows it no more", lambda: _gone(cloud, "headless"), 60)


def _with_problem(cluster: dict[str, Any]) -> dict[str, Any] | None:
    return cluster if cluster["problem"] and cluster["status"] != "Creating" else None


def _gone(cloud: QueueCloud, name: str) -> bool:
    try:
        cloud.api.describe(name)
    except Gone:
        return True
    return False


def test_a_server_that_was_killed_leaves_nothing_once_another_one_is_up(tmp_path: Path) -> None:
    with queue_cloud(tmp_path) as first:
        first.make(queue_spec("lost", {"name": "steady", "min": 1, "max": 1}))
        before = node_processes.matching(node_processes.of_cloud(tmp_path.resolve()))
        os.kill(first.system.local["pid"], signal.SIGKILL)
        with queue_cloud(tmp_path) as second:
            now = node_processes.matching(node_processes.of_cloud(tmp_path.resolve()))
            assert {one.pid for one in before}.isdisjoint(one.pid for one in now)
            second.make(queue_spec("again", {"name": "steady", "min": 1, "max": 1}))
            job = light_job(nodes=1, steps=5, step_seconds=0.1)
            second.system.ended(second.system.submit("again", job, "again"), "Succeeded", 120)
