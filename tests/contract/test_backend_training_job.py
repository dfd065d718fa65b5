"""The backend training-job: what it asks of AWS, and what it answers in an agent's place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.support.job_account import NOW, FakeLogs, FakeRoles, FakeS3, FakeSageMaker, refusal
from tests.support.memory import MemoryBlobs, MemoryClock
from tests.support.training_jobs import spec

from sam_on_moto.iam import policies
from trainyard.backends.training_job.agent import JobAgent
from trainyard.backends.training_job.backend import TrainingJobs
from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.jobs import Jobs
from trainyard.backends.training_job.role import job_role
from trainyard.backends.training_job.source import Source
from trainyard.domain import errors
from trainyard.domain.records import Cluster
from trainyard_contracts import commands, places
from trainyard_contracts.files import JobBundle

MADE = datetime(2026, 11, 24, 10, 30, 15, 123456, tzinfo=timezone.utc)
RUN = "run-01jdxqzzzzzzzzzzzzzzzzzz8k"
BUCKET = MemoryBlobs.bucket
DEPLOYMENT = JobDeployment(
    stage="prod",
    region="us-east-1",
    bucket=BUCKET,
    event_bus="prod-agents",
    secret_prefix="trainyard/prod",
    node_boundary_arn="arn:aws:iam::111122223333:policy/prod-boundary",
)
CLUSTER = Cluster(
    name=f"demo-{RUN[-6:]}",
    spec=spec(
        name=f"demo-{RUN[-6:]}", image="1.dkr.ecr.us-east-1.amazonaws.com/p:1", framework=None
    ),
    created_at=MADE,
    updated_at=MADE,
    owner_run=RUN,
)
JOB = places.job_name("prod", RUN, 1)
ARCHIVE = Source("source-abc.tar.gz", "abc", b"program")


@dataclass
class Account:
    """The backend and all that it reaches."""

    sagemaker: FakeSageMaker
    s3: FakeS3
    logs: FakeLogs
    blobs: MemoryBlobs
    roles: FakeRoles
    backend: TrainingJobs
    paused: list[float]

    def ask(self, command: commands.Command, seconds: float = 60) -> dict[str, Any]:
        """The answer; of an error with its code."""
        result = self.backend.run(CLUSTER, command.argv(), timeout_seconds=seconds)
        answer: dict[str, Any] = json.loads(result.stdout)
        assert ("error" in answer) == (result.exit_code != 0)
        return answer

    def submit(self, attempt: int = 1, **changed: Any) -> dict[str, Any]:
        """As the step does it: the bundle first, then the command."""
        bundle = JobBundle(
            run_id=RUN,
            attempt=attempt,
            cluster_name=CLUSTER.name,
            batch_script="",
            nodes=2,
            processes_per_node=1,
            program=["train.py"],
        )
        body = bundle.model_dump_json(by_alias=True).encode()
        key = f"{places.runs_prefix(CLUSTER.name)}/{places.bundle_key(RUN, attempt)}"
        self.blobs.put(key, body)
        given = {"sha256": hashlib.sha256(body).hexdigest(), **changed}
        return self.ask(commands.Submit(RUN, attempt, f"s3://{BUCKET}/{key}", **given))


@pytest.fixture
def account() -> Account:
    sagemaker, s3, logs, blobs, roles = (
        FakeSageMaker(),
        FakeS3(),
        FakeLogs(),
        MemoryBlobs(),
        FakeRoles(),
    )
    s3.objects = blobs.objects
    jobs = Jobs(sagemaker, DEPLOYMENT)
    paused: list[float] = []
    agent = JobAgent(
        jobs, blobs, s3, logs, DEPLOYMENT, lambda: ARCHIVE, MemoryClock(), paused.append
    )
    backend = TrainingJobs(jobs, roles, agent, DEPLOYMENT)
    return Account(sagemaker, s3, logs, blobs, roles, backend, paused)


# -- the cluster -----------------------------------------------------------------------------------
def test_a_cluster_is_the_role_of_its_jobs_and_nothing_else(account: Account) -> None:
    assert account.backend.describe(CLUSTER.name) is None
    arn = account.backend.create(CLUSTER)
    assert arn == account.backend.create(CLUSTER)
    assert account.sagemaker.jobs == {}

    seen = account.backend.describe(CLUSTER.name)

    assert seen is not None
    assert (seen.arn, seen.name) == (arn, CLUSTER.name)
    assert CLUSTER.is_marked(seen.tags)
    assert account.backend.tagged() == [seen]
    assert account.backend.remains() == []


def test_what_runs_is_stopped_before_the_role_goes(account: Account) -> None:
    account.backend.create(CLUSTER)
    account.submit()

    assert account.backend.delete(CLUSTER.name)
    assert account.sagemaker.jobs[JOB]["TrainingJobStatus"] == "Stopping"
    assert account.backend.describe(CLUSTER.name) is not None

    account.sagemaker.end(JOB, "Stopped")
    account.sagemaker.jobs[JOB]["WarmPoolStatus"] = {"Status": "Available"}
    assert account.backend.delete(CLUSTER.name)
    assert account.sagemaker.released == [JOB]
    assert account.backend.describe(CLUSTER.name) is None
    assert not account.backend.delete(CLUSTER.name)


def test_the_plan_is_the_request_of_the_first_job(account: Account) -> None:
    plan = account.backend.plan(CLUSTER)
    account.submit()
    sent = dict(account.sagemaker.jobs[JOB])
    planned = plan.request

    assert plan.operation == "CreateTrainingJob"
    assert list(plan.files.values()) == [len(ARCHIVE.body)]
    hidden = planned["Environment"].pop("TRAINYARD_BUNDLE_SHA256")
    assert hidden == "0" * 64
    del sent["Environment"]["TRAINYARD_BUNDLE_SHA256"]
    assert planned == {name: sent[name] for name in planned}


def test_the_nodes_are_those_of_the_job_that_runs(account: Account) -> None:
    assert account.backend.nodes(CLUSTER) == []
    account.submit()
    account.sagemaker.jobs[JOB]["SecondaryStatus"] = "Training"
    found = account.backend.nodes(CLUSTER)
    assert [(node.name, node.status) for node in found] == [
        ("algo-1", "Running"),
        ("algo-2", "Running"),
    ]
    account.sagemaker.end(JOB, "Completed")
    assert account.backend.nodes(CLUSTER) == []


def test_no_node_is_replaced_or_rebooted(account: Account) -> None:
    for wish in (account.backend.replace, account.backend.reboot):
        with pytest.raises(errors.BackendRejected, match="AWS chooses"):
            wish(CLUSTER.name, ["algo-1"])


# -- submit ----------------------------------------------------------------------------------------
def test_a_submission_is_one_job_however_often_it_comes(account: Account) -> None:
    answers = [account.submit(), account.submit()]

    assert [answer["jobId"] for answer in answers] == [JOB, JOB]
    assert list(account.sagemaker.jobs) == [JOB]
    job = account.sagemaker.jobs[JOB]
    data = f"s3://{BUCKET}/directories/{CLUSTER.name}/{RUN}/"
    assert job["Environment"]["TRAINYARD_DATA"] == data
    assert job["Environment"]["TRAINYARD_CLUSTER_ARN"] == job["RoleArn"]
    assert job["OutputDataConfig"]["S3OutputPath"] == f"{data}attempts/"
    assert job["Environment"]["TRAINYARD_SOURCE"].endswith(f"/lifecycle/{ARCHIVE.name}")
    assert ARCHIVE.body in account.blobs.objects.values()
    assert places.attempt_of_job("prod", JOB) == (RUN, 1)


def test_the_container_starts_our_program_itself_unless_a_launcher_of_aws_is_asked_for(
    account: Account,
) -> None:
    account.submit()
    assert account.sagemaker.jobs[JOB]["AlgorithmSpecification"]["ContainerEntrypoint"][0]


def test_a_job_of_this_name_that_is_not_ours_is_refused(account: Account) -> None:
    account.submit()
    arn = account.sagemaker.jobs[JOB]["TrainingJobArn"]
    account.sagemaker.tags[arn] = []
    assert account.submit()["error"] == "backend-rejected"


@pytest.mark.parametrize("status", ["Stopping", "Stopped", "Completed", "Failed"])
def test_a_stop_that_aws_refuses_as_the_job_stops_already_is_no_error(
    account: Account, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    account.backend.create(CLUSTER)
    account.submit()

    def refused(**_: object) -> None:
        words = f"The request was rejected because the training job is in status {status}."
        error = {"Code": "ValidationException", "Message": words}
        raise ClientError({"Error": error}, "StopTrainingJob")

    monkeypatch.setattr(account.sagemaker, "stop_training_job", refused)
    assert account.backend.delete(CLUSTER.name)


def test_a_job_of_an_earlier_attempt_is_stopped_and_waited_for(account: Account) -> None:
    account.submit()
    assert account.submit(2)["error"] == "fetching"
    assert account.paused == [5.0] * 8
    assert account.sagemaker.jobs[JOB]["TrainingJobStatus"] == "Stopping"
    account.sagemaker.end(JOB, "Stopped")
    assert account.submit(2)["jobId"] == places.job_name("prod", RUN, 2)


def test_a_submission_that_comes_late_ends_no_job_of_a_later_attempt(account: Account) -> None:
    """It may have hung for minutes while the run went on: the later attempt alone may write."""
    account.submit(2)
    said = account.submit(1)
    assert said["error"] == "fenced"
    assert "attempt 2" in said["message"]
    assert list(account.sagemaker.jobs) == [places.job_name("prod", RUN, 2)]
    assert account.sagemaker.jobs[places.job_name("prod", RUN, 2)]["TrainingJobStatus"] == (
        "InProgress"
    )


def test_a_bundle_that_is_not_what_was_written_is_asked_for_again(account: Account) -> None:
    assert account.submit(sha256="0" * 64)["error"] == "bundle-changed"
    assert account.sagemaker.jobs == {}


@pytest.mark.parametrize(
    ("code", "message", "answer", "words"),
    [
        (
            "ResourceLimitExceeded",
            "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 0",
            "backend-rejected",
            "Ask for a higher quota",
        ),
        ("CapacityError", "Unable to provision requested capacity", "no-capacity", "provision"),
        ("ValidationException", "The image is wrong", "backend-rejected", "The image is wrong"),
    ],
)
def test_what_aws_refuses_ends_the_run_with_its_words(
    account: Account, code: str, message: str, answer: str, words: str
) -> None:
    account.sagemaker.refuse = refusal(code, message)
    said = account.submit()
    assert said["error"] == answer
    assert words in said["message"]


def test_a_role_that_aws_does_not_know_yet_is_waited_for(account: Account) -> None:
    account.sagemaker.refuse = refusal("ValidationException", "Could not assume role x.")
    with pytest.raises(errors.RetryableError):
        account.submit()


# -- what there is ---------------------------------------------------------------------------------
def test_a_cancel_stops_what_runs_and_is_fine_with_what_does_not(account: Account) -> None:
    assert account.ask(commands.Cancel(RUN)) == {"state": "none"}
    account.submit()
    assert account.ask(commands.Cancel(RUN)) == {"state": "cancelling"}
    assert account.ask(commands.Cancel(RUN)) == {"state": "cancelling"}
    account.sagemaker.end(JOB, "Stopped")
    assert account.ask(commands.Cancel(RUN)) == {"state": "ended"}


def test_the_status_says_how_the_newest_job_ended(account: Account) -> None:
    assert account.ask(commands.Status(RUN))["jobId"] == ""
    account.submit()
    assert account.ask(commands.Status(RUN))["how"] == ""
    account.sagemaker.end(JOB, "Failed", reason="InternalServerError: Please try again.")
    said = account.ask(commands.Status(RUN))
    assert (said["jobId"], said["attempt"], said["how"]) == (JOB, 1, "host-lost")


def test_the_log_is_that_of_all_hosts_in_order_or_of_one(account: Account) -> None:
    account.logs.streams = {
        f"{JOB}/algo-1-17": [(1000, "one"), (3000, "three")],
        f"{JOB}/algo-2-17": [(2000, "two")],
        f"{JOB}0/algo-1-17": [(1, "of another attempt")],
    }
    assert account.ask(commands.Logs(RUN, 1))["text"].splitlines() == [
        "[algo-1] one",
        "[algo-2] two",
        "[algo-1] three",
    ]
    assert account.ask(commands.Logs(RUN, 1, node="algo-2"))["text"] == "two"
    found = commands.Logs(RUN, 1, contains=b"three".hex())
    assert account.ask(found)["text"] == "[algo-1] three"
    assert account.ask(commands.Logs(RUN, 1, rank=0))["lacks"]


def test_the_log_of_the_last_seconds_of_an_ended_job_is_before_its_end(account: Account) -> None:
    account.submit()
    account.sagemaker.end(JOB, "Completed")
    end = int(NOW.timestamp() * 1000)
    account.logs.streams = {f"{JOB}/algo-1-17": [(end - 60_000, "old"), (end - 5_000, "new")]}
    assert account.ask(commands.Logs(RUN, 1, since=10))["text"] == "new"


@pytest.mark.parametrize(
    "command",
    [
        commands.Exclude(RUN, 1, ("algo-1",)),
        commands.Checkout(RUN, 1, "s3://b/k", "0" * 64),
        commands.Nodes(),
    ],
)
def test_what_a_training_job_cannot_do_is_refused_in_words(
    account: Account, command: commands.Command
) -> None:
    said = account.ask(command)
    assert said["error"] == "invalid-request"
    assert "training job" in said["message"]


def test_an_export_goes_nowhere_else(account: Account) -> None:
    assert "error" in account.ask(commands.Export(RUN, "e1", "s3://other-bucket/x/"))


# -- the role --------------------------------------------------------------------------------------
def test_a_role_asks_for_the_jobs_of_its_own_run_and_for_no_other() -> None:
    policy = job_role(CLUSTER, DEPLOYMENT).policy
    job = "arn:aws:sagemaker:us-east-1:111122223333:training-job"
    other = places.job_name("prod", f"run-{'0' * 26}", 1)
    assert allows(policy, "sagemaker:DescribeTrainingJob", f"{job}/{JOB}")
    assert allows(policy, "sagemaker:DescribeTrainingJob", f"{job}/{JOB[:-1]}12")
    assert not allows(policy, "sagemaker:DescribeTrainingJob", f"{job}/{other}")
    assert not allows(policy, "sagemaker:StopTrainingJob", f"{job}/{JOB}")


def test_a_role_reads_what_its_runs_may_copy_from_and_no_other_prefix() -> None:
    inputs = ["s3://corpus/v1/", "s3://all"]
    cluster = CLUSTER.changed(spec=CLUSTER.spec.model_copy(update={"job_inputs": inputs}))
    policy = job_role(cluster, DEPLOYMENT).policy
    assert allows(policy, "s3:GetObject", "arn:aws:s3:::corpus/v1/a.txt")
    assert allows(policy, "s3:GetObject", "arn:aws:s3:::all/a.txt")
    assert allows(policy, "s3:ListBucket", "arn:aws:s3:::corpus")
    assert not allows(policy, "s3:GetObject", "arn:aws:s3:::corpus/v10/a.txt")
    assert not allows(job_role(CLUSTER, DEPLOYMENT).policy, "s3:ListBucket", "arn:aws:s3:::corpus")


def allows(policy: Mapping[str, Any], action: str, resource: str) -> bool:
    return policies.evaluate([dict(policy)], action, resource, {}) == "allow"


def test_a_role_reaches_its_own_cluster_only() -> None:
    policy = job_role(CLUSTER, DEPLOYMENT).policy
    bucket = f"arn:aws:s3:::{BUCKET}"
    own = f"{bucket}/directories/{CLUSTER.name}/{RUN}/final/model.pt"
    for action in ("s3:PutObject", "s3:GetObject", "s3:DeleteObject"):
        assert allows(policy, action, own)
        assert not allows(policy, action, f"{bucket}/directories/other/{RUN}/x")
    export = f"{bucket}/clusters/{CLUSTER.name}/runs/{RUN}/export/x"
    assert not allows(policy, "s3:PutObject", export)
    assert not allows(policy, "s3:DeleteObject", export)
    assert allows(policy, "s3:GetObject", f"{bucket}/clusters/{CLUSTER.name}/runs/{RUN}/x")
    assert allows(policy, "s3:GetObject", "arn:aws:s3:::sm-bucket/data/train/part-0")
    assert not allows(policy, "s3:GetObject", "arn:aws:s3:::sm-bucket/other/part-0")
    secret = "arn:aws:secretsmanager:us-east-1:111122223333:secret:trainyard/prod"
    key = f"{secret}/{CLUSTER.name}/agent-key-AbCdEf"
    assert allows(policy, "secretsmanager:GetSecretValue", key)
    assert not allows(policy, "secretsmanager:GetSecretValue", f"{secret}/other/agent-key-AbCdEf")
