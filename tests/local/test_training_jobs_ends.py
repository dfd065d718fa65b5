"""How training jobs end on the local cloud: stopped, interrupted, broken, and never with a rest."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.support.job_cloud import (
    BUCKET,
    JobCloud,
    eventually,
    job_cloud,
    own_ports,
    statuses,
    untar,
)

from trainyard_local import control
from trainyard_local.nodes import processes as node_processes

INTERNAL = "InternalServerError: We encountered an internal error. Please try again."
#: Counts on from its checkpoint, with a file a step, until somebody ends it.
COUNTS = """
cd /opt/ml/checkpoints; n=$(cat step 2>/dev/null || echo 0); echo from $n
trap 'echo asked to end at $n > /opt/ml/model/last; exit 0' TERM
while [ $n -lt ${LAST:-100000} ]; do n=$((n+1)); echo $n > step; echo at $n
[ $n = 3 ] && echo three; sleep 0.1; done; echo $n > /opt/ml/model/last
"""
STUBBORN = "trap '' TERM; echo deaf; while true; do sleep 0.1; done"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCloud]:
    folder = tmp_path_factory.mktemp("jobs")
    settings = {"STOP_SECONDS": "1", "SPOT_NOTICE_SECONDS": "1", "SYNC_SECONDS": "0.1"}
    with job_cloud(folder, **settings, CAPACITY_SECONDS="1") as up:
        yield up


def checkpoints(name: str) -> dict[str, Any]:
    return {"CheckpointConfig": {"S3Uri": f"s3://{BUCKET}/jobs/checkpoints/{name}"}}


def stop(cloud: JobCloud, name: str) -> dict[str, Any]:
    cloud.sagemaker.stop_training_job(TrainingJobName=name)
    return cloud.until(name, "Stopped")


def test_a_stop_lets_the_program_save_and_keeps_what_it_saved(cloud: JobCloud) -> None:
    cloud.shell("stop", COUNTS, **checkpoints("stop"))
    cloud.says("stop", "three")

    job = stop(cloud, "stop")

    assert job["TrainingJobStatus"] == "Stopped"
    assert statuses(job)[-4:] == ["Training", "Stopping", "Uploading", "Stopped"]
    last = untar(cloud.objects("jobs/out/stop/output/model.tar.gz")[""])["last"]
    assert last.startswith("asked to end at")
    step = cloud.objects("jobs/checkpoints/stop/")["step"].decode().strip()
    assert last.split()[-1] == step
    assert cloud.of_jobs() == []
    assert cloud.fleets() == []


def test_a_program_that_does_not_hear_the_stop_is_killed(cloud: JobCloud) -> None:
    cloud.shell("deaf", STUBBORN, hosts=2)
    eventually("both hosts run", lambda: cloud.log("deaf").count("deaf") == 2)
    job = stop(cloud, "deaf")
    stopping = job["SecondaryStatusTransitions"][-3]
    assert stopping["Status"] == "Stopping"
    assert (stopping["EndTime"] - stopping["StartTime"]).total_seconds() >= 1.0
    assert cloud.of_jobs() == []


def test_a_job_is_stopped_at_its_longest_runtime(cloud: JobCloud) -> None:
    cloud.shell("long", STUBBORN, StoppingCondition={"MaxRuntimeInSeconds": 1})
    job = cloud.until("long", "MaxRuntimeExceeded")
    assert job["TrainingJobStatus"] == "Stopped"
    assert "FailureReason" not in job


def test_a_spot_interruption_goes_on_from_the_checkpoint_in_s3(cloud: JobCloud) -> None:
    cloud.shell(
        "spot",
        COUNTS,
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 300, "MaxWaitTimeInSeconds": 600},
        Environment={"LAST": "12"},
        **checkpoints("spot"),
    )
    cloud.says("spot", "three")

    assert cloud.fault("interrupt-spot", job="spot") == {"kind": "interrupt-spot", "job": "spot"}
    job = cloud.until("spot", "Completed")

    went = statuses(job)
    assert went.index("Interrupted") > went.index("Training")
    again = went[went.index("Interrupted") + 1 :]
    assert again == ["Starting", "Pending", "Downloading", "Training", "Uploading", "Completed"]
    assert untar(cloud.objects("jobs/out/spot/output/model.tar.gz")[""])["last"] == "12\n"
    first, second = sorted(cloud.streams("spot").items())
    assert first[1][0] == "from 0"
    assert int(second[1][0].split()[1]) >= 3


def test_a_job_without_spot_capacity_ends_when_it_has_waited_long_enough(cloud: JobCloud) -> None:
    cloud.fault("no-capacity", instanceType="ml.c5.9xlarge")
    kind = {"InstanceType": "ml.c5.9xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    limits = {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}
    spot = {"EnableManagedSpotTraining": True, "StoppingCondition": limits}
    cloud.shell("waits", "true", ResourceConfig=kind, **spot)
    cloud.shell("lacks", "true", ResourceConfig=kind)

    waited = cloud.until("waits", "MaxWaitTimeExceeded")
    lacked = cloud.until("lacks", "Failed")

    assert "TrainingStartTime" not in waited
    assert lacked["FailureReason"] == (
        "CapacityError: Unable to provision requested ML compute capacity. "
        "Please retry using a different ML instance type."
    )
    assert "Training" not in statuses(lacked)
    cloud.fault("restore-capacity", instanceType="ml.c5.9xlarge")
    cloud.shell("has", "true", ResourceConfig=kind)
    cloud.until("has", "Completed")


def test_a_job_that_waits_for_capacity_can_be_stopped(cloud: JobCloud) -> None:
    cloud.fault("no-capacity", instanceType="ml.c5.18xlarge")
    kind = {"InstanceType": "ml.c5.18xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    limits = {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 600}
    cloud.shell(
        "early",
        "true",
        ResourceConfig=kind,
        EnableManagedSpotTraining=True,
        StoppingCondition=limits,
    )
    cloud.until("early", "Pending")
    job = stop(cloud, "early")
    assert statuses(job) == ["Starting", "Pending", "Stopping", "Stopped"]
    assert "TrainingStartTime" not in job


def test_a_killed_host_fails_the_job_by_an_internal_error(cloud: JobCloud) -> None:
    cloud.shell("host", COUNTS, hosts=2)
    eventually("both hosts count", lambda: cloud.log("host").count("three") == 2)
    assert cloud.fault("kill-host", job="host", host="algo-1")["host"] == "algo-1"
    job = cloud.until("host", "Failed")
    assert job["FailureReason"] == INTERNAL
    assert cloud.objects("jobs/out/host/") == {}
    assert cloud.of_jobs() == []


def test_a_job_with_a_retry_strategy_survives_a_killed_host(cloud: JobCloud) -> None:
    retry = {"RetryStrategy": {"MaximumRetryAttempts": 1}, "Environment": {"LAST": "8"}}
    cloud.shell("retry", COUNTS, **retry, **checkpoints("retry"))
    cloud.says("retry", "three")
    cloud.fault("kill-host", job="retry")
    job = cloud.until("retry", "Completed")
    assert statuses(job).count("Starting") == 2
    assert untar(cloud.objects("jobs/out/retry/output/model.tar.gz")[""])["last"] == "8\n"


def test_a_killed_program_fails_the_job_with_its_exit_code(cloud: JobCloud) -> None:
    cloud.shell("program", "echo on; exec sleep 1000", RetryStrategy={"MaximumRetryAttempts": 3})
    cloud.says("program", "on")
    assert cloud.fault("kill-host-process", job="program")["process"] == "sleep"
    job = cloud.until("program", "Failed")
    assert job["FailureReason"] == "AlgorithmError: , exit code: 137"
    assert statuses(job).count("Starting") == 1


def pooled(seconds: int, kind: str = "ml.c5.xlarge") -> dict[str, Any]:
    return {
        "ResourceConfig": {
            "InstanceType": kind,
            "InstanceCount": 1,
            "VolumeSizeInGB": 10,
            "KeepAlivePeriodInSeconds": seconds,
        }
    }


def test_the_next_matching_job_takes_the_hosts_of_a_warm_pool(cloud: JobCloud) -> None:
    leaves = "echo x > /opt/ml/model/x; echo kept > /opt/ml/sagemaker/warmpoolcache/c"
    cloud.shell("warm-1", leaves, **pooled(600))
    assert cloud.until("warm-1", "Completed")["WarmPoolStatus"]["Status"] == "Available"
    code = "ResourceInUse"
    with pytest.raises(ClientError, match=code):
        cloud.sagemaker.delete_training_job(TrainingJobName="warm-1")
    fleet = cloud.fleets()

    cloud.shell("other", "true", **pooled(0, "ml.c5.2xlarge"))
    cloud.until("other", "Completed")
    assert cloud.describe("warm-1")["WarmPoolStatus"]["Status"] == "Available"
    finds = "ls /opt/ml/model | wc -l; cat /opt/ml/sagemaker/warmpoolcache/c; sleep 0.5"
    cloud.shell("warm-2", finds, **pooled(600))
    job = cloud.until("warm-2", "Completed")

    assert "Pending" not in statuses(job)
    [lines] = cloud.streams("warm-2").values()
    assert lines == ["0", "kept"]
    first = cloud.describe("warm-1")["WarmPoolStatus"]
    assert (first["Status"], first["ReusedByJob"]) == ("Reused", "warm-2")
    assert cloud.fleets() == fleet
    listed = cloud.sagemaker.list_training_jobs(WarmPoolStatusEquals="Available")
    assert [job["TrainingJobName"] for job in listed["TrainingJobSummaries"]] == ["warm-2"]
    cloud.sagemaker.update_training_job(
        TrainingJobName="warm-2", ResourceConfig={"KeepAlivePeriodInSeconds": 0}
    )
    ended = eventually("the pool ends", lambda: not cloud.fleets() and cloud.describe("warm-2"))
    assert ended["WarmPoolStatus"]["Status"] == "Terminated"
    assert cloud.of_jobs() == []


def test_hosts_of_which_one_was_lost_are_no_warm_pool(cloud: JobCloud) -> None:
    cloud.shell("unwell", COUNTS, **pooled(600))
    cloud.says("unwell", "three")
    cloud.fault("kill-host", job="unwell")

    job = cloud.until("unwell", "Failed")

    assert job["FailureReason"] == INTERNAL
    assert job["WarmPoolStatus"]["Status"] == "Terminated"
    assert cloud.fleets() == []


def test_a_job_whose_hosts_take_their_time_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    with job_cloud(tmp_path, START_SECONDS="3600") as slow:
        slow.shell("slow", "true")
        eventually(
            "it waits for its hosts", lambda: statuses(slow.describe("slow"))[-1] == "Pending"
        )

        job = stop(slow, "slow")

        assert "TrainingStartTime" not in job
        assert slow.fleets() == []


def test_what_a_job_listens_on_is_seen_in_its_own_network_only(cloud: JobCloud) -> None:
    cloud.shell("serves", "python -m http.server 8123 --bind 0.0.0.0 & echo on; wait")
    cloud.says("serves", "on")
    [host] = next(job["hosts"] for job in cloud.status()["trainingJobs"] if job["name"] == "serves")
    eventually("the program listens", lambda: ":8123" in own_ports(host["pids"][0]))
    assert ":8123" not in own_ports(os.getpid())
    cloud.sagemaker.stop_training_job(TrainingJobName="serves")
    cloud.until("serves", "Stopped")


def test_a_fault_of_what_is_not_there_says_what_is(cloud: JobCloud) -> None:
    with pytest.raises(Exception, match="404"):
        cloud.fault("kill-host", job="nobody")
    with pytest.raises(Exception, match="400"):
        cloud.fault("no-capacity", instanceType="big")


def test_nothing_of_a_killed_cloud_is_left_after_the_next_start(
    cloud: JobCloud, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with job_cloud(tmp_path_factory.mktemp("killed")) as other:
        other.shell("lost", STUBBORN, hosts=2)
        eventually("both hosts run", lambda: other.log("lost").count("deaf") == 2)
        before = node_processes.matching(node_processes.of_cloud(other.state_dir))
        os.kill(other.local["pid"], signal.SIGKILL)
        assert other.of_jobs() != []

        control.up(other.state_dir, 0, other.state_dir.parent / "template.yaml")

        assert not any(node_processes.alive(process.pid) for process in before)
        assert other.of_jobs() == []
        assert other.fleets() == []
