"""A run whose attempts are training jobs: the same decisions, by AWS's word and the container's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.job_account import FakeLogs, FakeRoles, FakeS3, FakeSageMaker, refusal
from tests.support.memory import Died
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, run_spec
from tests.support.training_jobs import spec_fields

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.facts.record_fact import record_fact
from trainyard.app.facts.recorded import Recorded
from trainyard.app.runs.cancel_run import cancel_run
from trainyard.app.runs.dry_run import dry_run_cluster, dry_run_run
from trainyard.app.runs.label_run import label_run
from trainyard.app.runs.read_logs import read_logs
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.submit_run import submit_run
from trainyard.app.runs.team_budgets import set_budget, shown_budget
from trainyard.app.sweep import directories as sweeping
from trainyard.app.sweep.sweep import sweep
from trainyard.backends.training_job import exporting
from trainyard.backends.training_job.agent import JobAgent
from trainyard.backends.training_job.backend import TrainingJobs
from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.jobs import Jobs
from trainyard.backends.training_job.source import Source
from trainyard.domain.errors import InvalidRequest, WrongState
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.files import CheckpointManifest, ManifestFile, WatchedSource
from trainyard_contracts.specs import RunSpec
from trainyard_contracts.team_budgets import TeamBudgetSpec

IMAGE = "1.dkr.ecr.us-east-1.amazonaws.com/pytorch:1"
SPEC = spec_fields(framework=None, image=IMAGE, channels=None)
LOST = "InternalServerError: We encountered an internal error. Please try again."


class JobStory(Story):
    """AWS is a dictionary of jobs, and its events come when the test says so."""

    armed: tuple[int | None, bool] = (None, False)

    def begin(self, spec: dict[str, Any] | None = None, **extra: Any) -> JobStory:
        """A run whose first job is made."""
        self.sagemaker, self.roles, self.logs = FakeSageMaker(), FakeRoles(), FakeLogs()
        blobs, s3 = self.world.blobs, FakeS3()
        s3.objects = blobs.objects
        deployment = JobDeployment(
            stage="test",
            region="us-east-1",
            bucket=blobs.bucket,
            event_bus="agents",
            secret_prefix="trainyard/test",
            node_boundary_arn="arn:aws:iam::111122223333:policy/boundary",
        )
        jobs = Jobs(self.sagemaker, deployment)
        agent = JobAgent(
            jobs,
            blobs,
            s3,
            self.logs,
            deployment,
            lambda: Source("source-1.tar.gz", "1", b"program"),
            self.world.clock,
        )
        backend = TrainingJobs(jobs, self.roles, agent, deployment)
        self.world.ports = replace(
            self.world.ports,
            backends={
                **self.world.ports.backends,
                "training-job": self.world.fuse.wrap(backend),
            },
        )
        self.submit(cluster={"spec": spec or SPEC}, **extra)
        call, after = self.armed
        self.world.fuse.arm(call, after=after)
        self.rest()
        return self

    @property
    def name(self) -> str:
        """The newest attempt's job."""
        return places.job_name("test", self.run_id, self.attempt)

    def aws(
        self, status: str, secondary: str = "", reason: str = "", *, name: str = ""
    ) -> Recorded:
        """The job changes, and EventBridge says so."""
        name = name or self.name
        self.sagemaker.end(name, status, secondary, reason)
        return self.tell(name)

    def tell(self, name: str) -> Recorded:
        job = self.sagemaker.jobs[name]
        self.world.clock.tick(1)
        detail = {
            key: job[key]
            for key in (
                "TrainingJobName",
                "TrainingJobArn",
                "TrainingJobStatus",
                "SecondaryStatus",
                "FailureReason",
                "SecondaryStatusTransitions",
            )
            if key in job
        }
        envelope = {
            "source": "aws.sagemaker",
            "detail-type": "SageMaker Training Job State Change",
            "id": f"event-{self.world.ids.ulid()}",
            "detail": detail,
        }
        recorded = record_fact(self.world.ports, envelope)
        self.rest()
        return recorded

    def steps(self) -> None:
        """The program starts on two nodes and makes its first step."""
        told = {"run": self.run_id, "attempt": self.attempt}
        self.send("AttemptStarted", **told, jobId=self.name, nodes=["algo-1", "algo-2"])
        self.send("AttemptStepped", **told, step=1, resumedFrom=None, steppedAt=self.at)
        self.rest()

    def program_ends(self, outcome: str, **detail: Any) -> None:
        told = {"run": self.run_id, "attempt": self.attempt, "jobId": self.name}
        self.send("AttemptEnded", **told, outcome=outcome, **detail)
        self.rest()


@pytest.fixture
def story() -> JobStory:
    return JobStory().begin()


def test_a_run_is_a_job_and_leaves_neither_role_nor_key(story: JobStory) -> None:
    assert list(story.sagemaker.jobs) == [story.name]
    assert story.cluster.status == "Ready"
    assert f"is submitted to SageMaker as job {story.name}." in story.said
    story.steps()
    assert story.run.status == "Running"

    story.program_ends("succeeded", lastStep=200)
    assert story.run.outcome is None
    story.aws("Completed")

    assert story.run.status == "Succeeded"
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert story.cluster.status == "Deleted"
    assert story.roles.made == {}
    assert story.world.secrets.names == set()
    assert story.machines.running == []


def test_a_lost_host_is_no_error_of_the_program_whatever_its_peers_saw(story: JobStory) -> None:
    story.steps()
    story.program_ends("failed", error="RuntimeError: Connection reset by peer", exitCode=1)
    assert story.run.attempt is not None
    assert story.run.attempt.ended_at is None

    story.aws("Failed", reason=LOST)

    assert [one.cause for one in story.run.incidents] == ["node-lost"]
    assert story.attempt == 2
    assert story.run.excluded_nodes == []
    assert len(story.sagemaker.jobs) == 2
    assert "Resuming on other nodes" in story.said


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("same-error", {"error": "ValueError: bad", "errorKind": "python-error"}),
        ("out-of-memory", {"error": "MemoryError", "errorKind": "out-of-memory"}),
        ("same-error", {"signal": 11, "errorKind": "signal", "failedNode": "algo-1"}),
        ("same-error", {"error": "the program exited with 3", "exitCode": 3}),
    ],
)
def test_the_program_s_own_error_twice_stops_the_run_whatever_aws_says_of_the_job(
    story: JobStory, code: str, error: dict[str, Any]
) -> None:
    for _ in range(2):
        story.steps()
        story.program_ends("failed", **error, lastStep=7)
        story.aws("Failed", reason=LOST)

    assert story.attempt == 2, story.said
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == code


def test_what_a_peer_sees_of_a_lost_host_never_stops_the_run(story: JobStory) -> None:
    seen = "RuntimeError: Connection reset by peer"
    for kind in ("python-error", "unknown", "node"):
        story.steps()
        story.program_ends("failed", error=seen, errorKind=kind, exitCode=1, lastStep=7)
        story.aws("Failed", reason=LOST)

    assert [one.cause for one in story.run.incidents] == ["node-lost"] * 3
    assert story.attempt == 4


def test_the_order_of_both_words_changes_nothing(story: JobStory) -> None:
    story.steps()
    error = {"error": "ValueError: bad", "errorKind": "python-error", "lastStep": 7}
    failed = {"status": "Failed", "reason": "AlgorithmError: ValueError: bad, exit code: 1"}
    story.program_ends("failed", **error)
    story.aws(**failed)
    assert story.attempt == 2
    assert story.run.incidents[0].error_signature == "python-error|ValueError: bad|at step 7"
    story.steps()
    story.program_ends("failed", **error)
    story.aws(**failed)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "same-error"


def test_the_same_event_twice_is_one_end(story: JobStory) -> None:
    story.steps()
    first = story.name
    story.aws("Failed", reason=LOST)
    story.tell(first)
    story.tell(first)
    assert story.attempt == 2
    assert len(story.run.incidents) == 1


def test_a_lost_event_is_made_good_by_the_sweep(story: JobStory) -> None:
    story.steps()
    story.sagemaker.end(story.name, "Failed", reason=LOST)
    assert [one for one in sweep(story.world.ports) if one.action == "job's end"] == []
    story.world.clock.tick(60)
    assert [one.action for one in sweep(story.world.ports)].count("job's end") == 1
    story.rest()
    assert story.attempt == 2


def test_a_program_that_says_nothing_of_its_end_is_judged_by_aws_s_word() -> None:
    well = JobStory().begin()
    well.steps()
    well.aws("Completed")
    assert well.run.status == "Succeeded"

    badly = JobStory().begin()
    badly.steps()
    badly.aws("Failed", reason="AlgorithmError: killed, exit code: 137")
    assert badly.run.incidents[0].reason.endswith("'AlgorithmError: killed, exit code: 137'.")


@pytest.mark.parametrize(
    "words",
    [
        "Data download failed: NoSuchKey",
        "Data download failed:AccessDenied (403): Access Denied",
        "Cannot pull algorithm container. Either the image does not exist or its permissions are "
        "incorrect.",
    ],
)
def test_what_the_request_lacks_ends_the_run_at_once(story: JobStory, words: str) -> None:
    story.aws("Failed", reason=f"ClientError: {words}")
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "lasting-error"
    assert words.rstrip(".") in story.run.problem.detail
    assert story.attempt == 1


def test_a_job_that_somebody_stopped_ends_the_run_as_cancelled(story: JobStory) -> None:
    story.steps()
    story.aws("Stopped")
    assert story.run.status == "Cancelled"


def test_a_job_that_reached_its_limit_says_which_and_may_be_resumed(story: JobStory) -> None:
    story.steps()
    story.aws("Stopped", "MaxRuntimeExceeded")
    assert story.run.problem is not None
    assert story.run.problem.code == "job-time-exceeded"
    assert "maxRuntimeSeconds" in story.run.problem.detail
    assert story.cluster.status == "Deleted"

    resume_run(story.world.ports, story.run_id)
    story.rest()
    assert story.attempt == 2
    assert story.cluster.generation == 2
    assert story.name in story.sagemaker.jobs


def test_a_cancel_stops_the_job_and_waits_for_its_end(story: JobStory) -> None:
    story.steps()
    cancel_run(story.world.ports, story.run_id)
    story.rest()
    assert story.sagemaker.jobs[story.name]["TrainingJobStatus"] == "Stopping"
    story.world.clock.tick(300)
    story.rest()
    assert story.run.status != "Cancelled"
    story.aws("Stopped")
    assert story.run.status == "Cancelled"


def test_nodes_that_are_not_to_be_had_are_asked_for_as_long_as_a_run_waits_for_a_node() -> None:
    story = JobStory().begin(recovery={"waitForNodeSeconds": 600})
    reason = "CapacityError: Unable to provision requested ML compute capacity."
    story.aws("Failed", reason=reason)
    assert (story.attempt, story.run.status) == (2, "Recovering")
    story.world.clock.tick(601)
    story.aws("Failed", reason=reason)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "no-capacity"


P5, P4 = "ml.p5.48xlarge", "ml.p4d.24xlarge"
NONE = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type."
)


def with_ways(*, seconds: int = 600, **extra: Any) -> JobStory:
    """Its first way is P5, its second P4, its third P4 as spot."""
    ways = [
        {"instanceTypes": [P5, P4], "tryForSeconds": seconds},
        {"instanceType": P4, "market": "spot"},
    ]
    return JobStory().begin({**SPEC, "capacity": ways}, **extra)


def asked(story: JobStory) -> tuple[str, bool]:
    """The type of the newest job's nodes, and whether it is a spot job."""
    request = story.sagemaker.jobs[story.name]
    return request["ResourceConfig"]["InstanceType"], request.get(
        "EnableManagedSpotTraining", False
    )


def test_a_job_that_gets_no_nodes_is_followed_by_one_of_the_next_way() -> None:
    story = with_ways()
    assert asked(story) == (P5, False)
    story.aws("Failed", reason=NONE)
    assert (asked(story), story.attempt, story.cluster.generation) == ((P4, False), 2, 2)
    story.steps()
    assert (story.run.status, story.run.cluster_generation) == ("Running", 2)
    for line in (
        f"Try 1 for capacity: {P5}, on demand",
        f"AWS has no capacity for try 1 ({P5}, on demand). AWS had no nodes for job",
        f"Try 2 for capacity: {P4}, on demand",
    ):
        assert line in story.said
    story.program_ends("succeeded")
    story.aws("Completed")
    assert (story.run.status, story.cluster.status) == ("Succeeded", "Deleted")
    assert story.roles.made == {}


def test_tries_are_none_of_the_attempts_that_a_run_may_have() -> None:
    story = with_ways(recovery={"maxAttempts": 1})
    story.aws("Failed", reason=NONE)
    story.aws("Failed", reason=NONE)
    assert asked(story) == (P4, True)
    story.steps()
    assert story.run.status == "Running"


def test_a_request_that_is_refused_for_want_of_capacity_leads_to_the_next_way() -> None:
    story = JobStory()
    refusal_of = FakeSageMaker.create_training_job

    def refuse(self: FakeSageMaker, **request: Any) -> Any:
        if request["ResourceConfig"]["InstanceType"] == P5:
            raise refusal("CapacityError", NONE)
        return refusal_of(self, **request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeSageMaker, "create_training_job", refuse)
        ways = [{"instanceTypes": [P5, P4]}]
        story = story.begin({**SPEC, "capacity": ways})
    assert asked(story) == (P4, False)
    assert "AWS made no job for attempt 1 (no-capacity): " in story.said


def test_a_quota_stops_the_run_and_no_other_way_is_tried() -> None:
    words = (
        f"The account-level service limit '{P5} for training job usage' is 0 Instances, with "
        "current utilization of 0 Instances and a request delta of 2 Instances."
    )

    def refuse(self: FakeSageMaker, **request: Any) -> Any:
        raise refusal("ResourceLimitExceeded", words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeSageMaker, "create_training_job", refuse)
        story = with_ways()
    assert (story.run.status, story.attempt) == ("Failed", 1)
    assert story.run.problem is not None
    assert story.run.problem.code == "backend-rejected"
    assert f"Service Quotas (SageMaker, '{P5} for training job usage')" in story.run.problem.detail


def waits_for_capacity(story: JobStory, words: str = "Training job waiting for capacity") -> None:
    job = story.sagemaker.jobs[story.name]
    job["SecondaryStatus"] = "Pending"
    job["SecondaryStatusTransitions"] = [{"Status": "Pending", "StatusMessage": words}]
    story.tell(story.name)


def test_a_job_that_waits_for_capacity_is_left_when_its_try_is_over() -> None:
    story = with_ways(seconds=300)
    first = story.name
    waits_for_capacity(story)
    story.pass_time(290)
    assert story.attempt == 1
    story.pass_time(20)
    assert story.sagemaker.jobs[first]["TrainingJobStatus"] == "Stopping"
    assert (story.cluster.status, len(story.sagemaker.jobs)) == ("Deleting", 1)
    story.aws("Stopped", name=first)
    story.pass_time(61)
    assert (asked(story), story.run.outcome) == ((P4, False), None)


def test_a_job_that_gets_its_nodes_in_time_stays() -> None:
    story = with_ways(seconds=300)
    waits_for_capacity(
        story, "Insufficient capacity error from EC2 while launching instances, retrying!"
    )
    assert "Insufficient capacity error from EC2" in story.said
    story.pass_time(290)
    waits_for_capacity(story, "Preparing the instances for training")
    story.pass_time(290)
    assert (story.attempt, story.cluster.generation) == (1, 1)


def test_a_lost_host_that_is_not_to_be_had_again_leads_to_the_next_way_in_a_new_deadline() -> None:
    story = with_ways(limits={"clusterDeadlineSeconds": 3600})
    story.steps()
    story.world.clock.tick(90_000)
    story.aws("Failed", reason=LOST)
    assert asked(story) == (P5, False)
    story.aws("Failed", reason=NONE)
    assert (asked(story), story.run.outcome) == ((P4, False), None)
    story.steps()
    assert story.run.status == "Running"


def test_when_no_way_has_nodes_until_the_deadline_all_of_them_are_named() -> None:
    story = with_ways(limits={"clusterDeadlineSeconds": 600})
    for _ in range(30):
        if story.run.outcome is not None:
            break
        if story.sagemaker.jobs[story.name]["TrainingJobStatus"] == "InProgress":
            story.aws("Failed", reason=NONE)
        story.pass_time(20)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "no-capacity"
    for words in ("tries found capacity", P5, P4, "spot"):
        assert words in story.run.problem.detail
    assert (story.roles.made, story.machines.running) == ({}, [])


def test_what_was_trained_is_exported_though_the_run_is_cancelled_between_two_ways() -> None:
    """It lies in S3: no job, and no role, is needed for it."""
    story = with_ways(limits={"clusterDeadlineSeconds": 36000})
    story.steps()
    story.aws("Failed", reason=LOST)
    for _ in range(3):
        story.aws("Failed", reason=NONE)
    assert story.cluster.status == "Pending", "its turn has not come"
    story.cancel()
    story.rest()
    assert story.run.status == "Cancelled"
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    story.pass_time(61)
    story.sweep()
    assert (story.cluster.status, story.roles.made) == ("Deleted", {})


def test_a_checkpoint_that_s3_lost_is_looked_for_where_jobs_left_it(story: JobStory) -> None:
    story.steps()
    story.checkpoint(40)
    story.program_ends("succeeded")
    story.aws("Completed")
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert "step 40 is not in it; is the directory in S3 whole?" in story.run.problem.detail


def test_after_a_crash_at_any_write_the_next_way_is_one_job() -> None:
    for writes in range(1, 40):
        story = with_ways()
        first = story.name
        story.world.fuse.arm(writes)
        try:
            story.aws("Failed", reason=NONE)
        except Died:
            pass
        story.world.fuse.arm(None)
        story.tell(first)
        for _ in range(3):
            story.pass_time(61)
            story.sweep()
        assert len(story.sagemaker.jobs) == 2, writes
        assert (asked(story), story.cluster.generation) == ((P4, False), 2), writes
        story.steps()
        assert story.run.status == "Running", writes


def test_the_stages_of_a_job_are_the_run_s_reason_until_it_steps(story: JobStory) -> None:
    job = story.sagemaker.jobs[story.name]
    job["SecondaryStatus"] = "LaunchingMLInstances"
    story.tell(story.name)
    assert story.run.reason == "Attempt 1: AWS launches the nodes."
    story.steps()
    job["SecondaryStatus"] = "Interrupted"
    story.tell(story.name)
    assert story.run.reason == "Attempt 1 trains."
    assert "AWS took the spot nodes back" in story.said


def test_events_of_jobs_that_are_not_known_are_dropped(story: JobStory) -> None:
    other = places.job_name("test", story.run_id, 7)
    story.sagemaker.jobs[other] = {**story.sagemaker.jobs[story.name], "TrainingJobName": other}
    assert story.tell(other).reason == "the run has no attempt 7"
    gone = places.job_name("test", f"run-{'0' * 26}", 1)
    story.sagemaker.jobs[gone] = {**story.sagemaker.jobs[story.name], "TrainingJobName": gone}
    assert story.tell(gone).result == "dropped"


def test_a_silent_cluster_of_jobs_is_never_lost(story: JobStory) -> None:
    story.steps()
    story.world.clock.tick(timedelta(hours=3).total_seconds())
    assert [one.action for one in sweep(story.world.ports)] == []
    assert story.cluster.status == "Ready"


def test_a_cluster_that_nobody_accounts_for_is_found_by_its_role(story: JobStory) -> None:
    del story.world.clusters.stored[story.cluster.name]
    story.world.clock.tick(3600)
    kept = [one for one in sweep(story.world.ports) if one.action == "unknown cluster kept"]
    assert len(kept) == 1


def test_a_cluster_of_its_own_is_refused_and_so_is_its_name(story: JobStory) -> None:
    spec = read_cluster_spec(SPEC)
    for refused in (create_cluster, dry_run_cluster):
        with pytest.raises(InvalidRequest, match=r"backend: .*submit a run"):
            refused(story.world.ports, spec)
    named = run_spec(cluster={"name": story.cluster.name})
    with pytest.raises(InvalidRequest, match=r"cluster\.name: "):
        dry_run_run(story.world.ports, named)


@pytest.mark.parametrize("asked", [dry_run_run, submit_run])
def test_an_image_that_aws_does_not_have_is_refused_by_its_field_before_a_run_begins(
    story: JobStory, asked: Callable[[Ports, RunSpec], object]
) -> None:
    known = {**spec_fields(channels=None), "framework": {"name": "pytorch", "version": "2.8.0"}}
    unknown = {**known, "framework": {"name": "pytorch", "version": "9.9.9"}}
    for where, cluster in {
        "cluster.spec.": {"spec": unknown},
        "cluster.otherwise.0.": {"spec": known, "otherwise": [unknown]},
    }.items():
        runs = set(story.world.runs.stored)
        with pytest.raises(InvalidRequest, match=r"no image of pytorch 9\.9\.9") as refused:
            asked(story.world.ports, run_spec(cluster=cluster))
        assert [one.field for one in refused.value.errors] == [f"{where}framework.version"]
        assert set(story.world.runs.stored) == runs


def script_job(hyperparameters: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": 2, "module": "a", "recipe": "command", "hyperparameters": hyperparameters}


def test_every_attempts_job_has_the_hyperparameters_as_awss_sdk_sends_them() -> None:
    given = {"lr": 0.1, "name": "a b", "layers": [1, 2]}
    story = JobStory().begin(job=script_job(given))
    story.aws("Failed", reason=LOST)
    story.rest()
    assert story.attempt == 2
    for attempt in (1, 2):
        sent = story.sagemaker.jobs[places.job_name("test", story.run_id, attempt)]
        found = sent["HyperParameters"]
        assert {name: found[name] for name in given} == {
            "lr": "0.1", "name": '"a b"', "layers": "[1, 2]",
        }  # fmt: skip
        assert found["sagemaker_program"] == '"trainyard_entry.py"'


@pytest.mark.parametrize("asked", [dry_run_run, submit_run])
@pytest.mark.parametrize(("kind", "most"), [("none", 95), ("torchrun", 93)])
def test_hyperparameters_that_aws_would_not_take_are_refused_before_a_run_begins(
    story: JobStory, asked: Callable[[Ports, RunSpec], object], kind: str, most: int
) -> None:
    cluster = {"spec": {**SPEC, "distribution": {"kind": kind}}}
    runs = set(story.world.runs.stored)

    def ask(count: int) -> None:
        job = script_job({f"h{number}": number for number in range(count)})
        asked(story.world.ports, run_spec(cluster=cluster, job=job))

    with pytest.raises(InvalidRequest, match=f"must be at most {most}") as refused:
        ask(most + 1)
    assert [one.field for one in refused.value.errors] == ["job.hyperparameters"]
    assert refused.value.detail.startswith("job.hyperparameters: ")
    assert set(story.world.runs.stored) == runs
    ask(most)


def test_a_dry_run_shows_the_files_of_each_way(story: JobStory) -> None:
    other = cluster_spec(SPEC["name"], workers=2)
    plan = dry_run_run(story.world.ports, run_spec(cluster={"spec": SPEC, "otherwise": [other]}))
    mine, others = plan.ways
    assert (mine.backend, others.backend) == ("training-job", "hyperpod")
    assert mine.files == plan.files
    [name] = mine.files
    assert name.endswith("/source-1.tar.gz")
    assert others.files
    assert set(others.files).isdisjoint(mine.files)
    assert all(size > 0 for one in plan.ways for size in one.files.values())


def test_a_dry_run_shows_the_hyperparameters_of_each_way(story: JobStory) -> None:
    ways = {**SPEC, "capacity": [{}, {"instanceTypes": ["ml.p5.48xlarge"]}]}
    asked = run_spec(cluster={"spec": ways}, job=script_job({"lr": 0.1}))
    plan = dry_run_run(story.world.ports, asked)
    assert [way.request["HyperParameters"]["lr"] for way in plan.ways] == ["0.1", "0.1"]


def test_a_dry_run_shows_the_request_of_the_job_and_no_batch_script(story: JobStory) -> None:
    shown = dry_run_run(story.world.ports, run_spec(cluster={"spec": SPEC}))
    assert shown.operation == "CreateTrainingJob"
    assert shown.request["AlgorithmSpecification"]["TrainingImage"] == IMAGE
    assert shown.batch_script is None
    assert shown.hourly_usd == 3.0
    assert any("a lost node ends the job" in words for words in shown.warnings)
    slurm = dry_run_run(story.world.ports, run_spec(cluster={"spec": cluster_spec(workers=2)}))
    assert slurm.operation == "CreateCluster"
    assert slurm.batch_script


def test_an_export_that_takes_several_commands_goes_on_at_once(
    story: JobStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = places.directory_prefix(story.cluster.name, story.run_id)
    for number in range(5):
        story.world.blobs.put(f"{directory}output/{number}", b"%d" % number)
    moments = iter([0.0, 0.0, *[99.0] * 2])
    monkeypatch.setattr(exporting, "monotonic", lambda: next(moments, 0.0))
    story.steps()
    story.program_ends("succeeded", lastStep=200)

    story.aws("Completed")

    walker = next(walker for key, walker in story.machines.walkers.items() if key[0] == "run")
    assert walker.visited.count("Export") > 1
    assert story.run.export is not None
    assert (story.run.export.state, story.run.export.objects) == ("verified", 5)
    assert story.run.status == "Succeeded"


def life(call: int | None, *, after: bool) -> JobStory:
    """A whole life with a lost host; the process dies at one call of a port."""
    story = JobStory()
    story.armed = call, after
    story.begin()
    survive(story)
    first = story.name
    story.steps()
    survive(story)
    story.sagemaker.end(first, "Failed", reason=LOST)
    deliver(story, first)
    survive(story)
    story.steps()
    survive(story)
    story.program_ends("succeeded", lastStep=200)
    second = story.name
    story.sagemaker.end(second, "Completed")
    deliver(story, second)
    for _ in range(4):
        survive(story)
    return story


def deliver(story: JobStory, name: str) -> None:
    """EventBridge delivers at least once."""
    try:
        story.tell(name)
    except Died:
        story.world.fuse.arm(None)
        story.tell(name)


def survive(story: JobStory) -> None:
    """The machines go on; what a lost wake-up left is found by the sweep."""
    story.rest()
    story.world.clock.tick(61)
    try:
        story.sweep()
    except Died:
        story.world.fuse.arm(None)
        story.sweep()


@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_dies_at_any_call_leaves_one_job_for_each_attempt(after: bool) -> None:
    calls = life(None, after=False).world.fuse.calls
    assert calls > 100
    for call in range(1, calls, 7 if after else 5):
        story = life(call, after=after)
        told = f"{call} {'after' if after else 'before'}\n{story.said}"
        assert story.run.status == "Succeeded", told
        assert len(story.run.attempts) == 2, told
        assert len(story.sagemaker.jobs) == 2, told
        assert story.roles.made == {}, told
        assert story.machines.running == [], told


def test_what_a_job_printed_is_read_after_its_cluster_is_gone(story: JobStory) -> None:
    story.steps()
    story.logs.streams[f"{story.name}/algo-1-1"] = [(1, "the last words")]
    story.program_ends("succeeded", lastStep=200)
    story.aws("Completed")
    assert story.cluster.status == "Deleted"
    log = read_logs(story.world.ports, story.run_id, attempt=1)
    assert (log.source, log.text) == ("cloudwatch", "the last words")


def copied(story: JobStory, number: int, step: int, *, counted: bool) -> str:
    """A whole copy of a program's own checkpoint in the run's directory; where it is."""
    save = f"watched/snap-1/save-{number:012d}-step-{step:012d}-attempt-1"
    top = f"{places.directory_prefix(story.cluster.name, story.run_id)}{save}"
    source = WatchedSource(path="work/snap.pt", signature="s", modified_ns=1, counted=counted)
    file = ManifestFile(path="work/snap.pt", bytes=2, sha256=hashlib.sha256(b"42").hexdigest())
    manifest = CheckpointManifest(
        run_id=story.run_id,
        attempt=1,
        step=step,
        world_size=1,
        created_at=story.world.clock.now(),
        files=[file],
        watched=source,
    )
    story.world.blobs.put(f"{top}/work/snap.pt", b"42")
    story.world.blobs.put(f"{top}/manifest.json", manifest.model_dump_json(by_alias=True).encode())
    about = {"path": save, "bytes": 2, "files": 1, "counted": counted}
    story.send("CheckpointCommitted", run=story.run_id, attempt=1, step=step,
               committedAt=story.at, **about)  # fmt: skip
    return save


def test_copies_of_a_program_that_says_no_step_are_a_result_as_on_a_cluster(
    story: JobStory,
) -> None:
    story.steps()
    save = copied(story, 2, 2, counted=True)
    story.program_ends("succeeded")
    story.aws("Completed")
    assert story.run.export is not None
    assert (story.run.export.state, story.run.export.reason) == ("verified", "")
    assert not story.run.export.found_nothing
    assert story.world.blobs.get(f"{story.run.export_prefix}{save}/work/snap.pt") == b"42"


def months_later(story: JobStory, days: int = 31) -> list[str]:
    """What the sweep deletes that looks at directories."""
    story.world.clock.tick(days * 86400)
    return [one.subject for one in sweep(story.world.ports) if one.action == "directory deleted"]


def left_in(story: JobStory) -> list[str]:
    prefix = places.directory_prefix(story.cluster.name, story.run_id)
    return [key for key in story.world.blobs.objects if key.startswith(prefix)]


def trained(outcome: str = "succeeded") -> JobStory:
    """A run that is over, with one result in its directory."""
    story = JobStory().begin(recovery={"maxAttempts": 1})
    directory = places.directory_prefix(story.cluster.name, story.run_id)
    story.world.blobs.put(f"{directory}output/result", b"42")
    story.steps()
    story.program_ends(outcome, lastStep=200, error="ValueError: x")
    story.aws("Completed" if outcome == "succeeded" else "Failed", reason="AlgorithmError: x")
    assert story.run.terminal
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    return story


def test_a_directory_goes_a_month_after_its_run_and_its_export_stays() -> None:
    story = trained()
    # SageMaker's own upload of /opt/ml/model is in no export.
    model = places.directory_prefix(story.cluster.name, story.run_id) + "attempts/j/model.tar.gz"
    story.world.blobs.put(model, b"model")
    assert months_later(story, 10) == []
    assert months_later(story, 21) == [story.run_id]
    assert left_in(story) == [model]
    assert story.world.blobs.get(f"{story.run.export_prefix}output/result") == b"42"
    assert "The run's directory in S3 is deleted" in story.said
    assert months_later(story, 1) == []


def test_a_directory_that_is_the_only_copy_is_never_deleted() -> None:
    story = trained()
    key = f"{story.run.export_prefix}output/result"
    for spoil in (b"43", None):  # somebody changed or deleted what was exported
        story.world.blobs.objects.pop(key, None)
        if spoil is not None:
            story.world.blobs.put(key, spoil)
        assert months_later(story) == []
        assert left_in(story) != []
    unexported = JobStory().begin(export={"enabled": False})
    directory = places.directory_prefix(unexported.cluster.name, unexported.run_id)
    unexported.world.blobs.put(f"{directory}output/result", b"42")
    unexported.steps()
    unexported.program_ends("succeeded", lastStep=200)
    unexported.aws("Completed")
    assert months_later(unexported) == []
    # Without its record nobody knows what it is.
    del story.world.runs.stored[story.run_id]
    assert months_later(story) == []


def test_a_run_whose_directory_is_gone_is_not_resumed_from_nothing() -> None:
    story = trained("failed")
    months_later(story)
    with pytest.raises(WrongState, match="was deleted at"):
        resume_run(story.world.ports, story.run_id)
    another = trained("failed")
    resume_run(another.world.ports, another.run_id)
    assert months_later(another) == []


def test_a_sweep_that_dies_amid_a_directory_is_made_good_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "OBJECTS_AT_ONCE", 1)
    story = trained()
    directory = places.directory_prefix(story.cluster.name, story.run_id)
    for number in range(3):
        story.world.blobs.put(f"{directory}checkpoints/torn/{number}", b"x")
    assert months_later(story) == [story.run_id]
    assert len(left_in(story)) == 3
    while left_in(story):
        assert months_later(story, 1) == [story.run_id]


def checkpointed(selection: str) -> JobStory:
    """A run that is over, and saved two checkpoints in its program's own way."""
    story = JobStory().begin(
        recovery={"maxAttempts": 1}, export={"checkpoints": selection, "enabled": True}
    )
    story.steps()
    for number in (1, 2):
        copied(story, number, number * 10, counted=False)
    story.program_ends("failed", error="ValueError: x")
    story.aws("Failed", reason="AlgorithmError: x")
    assert story.run.export is not None
    assert story.run.export.state == "verified", story.run.export.reason
    return story


@pytest.mark.parametrize("selection", ["last", "none"])
def test_a_checkpoint_that_was_not_to_be_exported_is_no_copy_of_anything_and_stays(
    selection: str,
) -> None:
    story = checkpointed(selection)
    before = left_in(story)
    assert months_later(story) == []
    assert left_in(story) == before
    assert story.run.directory_deleted_at is None


def test_a_directory_whose_checkpoints_are_all_exported_goes() -> None:
    story = checkpointed("all")
    assert months_later(story) == [story.run_id]
    assert left_in(story) == []


def test_an_export_that_is_deleted_while_its_directory_goes_leaves_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "OBJECTS_AT_ONCE", 1)
    story = checkpointed("all")
    assert months_later(story) == [story.run_id]
    left = left_in(story)
    del story.world.blobs.objects[f"{story.run.export_prefix}{saved_file(2)}"]
    assert months_later(story, 1) == []
    assert left_in(story) == left != []


def saved_file(number: int) -> str:
    return f"watched/snap-1/save-{number:012d}-step-{number * 10:012d}-attempt-1/work/snap.pt"


def test_one_directory_is_looked_at_in_each_sweep_and_each_has_its_turn() -> None:
    world = JobStory().world
    for name in ("a/run-1", "a/run-2", "b/run-3"):
        world.blobs.put(f"directories/{name}/output/x", b"x")
    seen = []
    for _ in range(4):
        seen += [one.name for one in sweeping.directories(world.ports)]
        world.clock.tick(60)
    assert len(seen) == 4
    assert set(seen) == {"a/run-1", "a/run-2", "b/run-3"}


@pytest.mark.parametrize("whose", ["label", "cluster"])
def test_a_budget_that_runs_share_counts_jobs_and_ends_them(story: JobStory, whose: str) -> None:
    value = {"label": "team=vision", "cluster": story.cluster.name}[whose]
    spec = TeamBudgetSpec.model_validate({whose: value, "maxUsd": 2.0, "tailSeconds": 60})
    if whose == "label":
        label_run(story.world.ports, story.run_id, {"team": "vision"}, version=None)
    set_budget(story.world.ports, "b", spec)
    story.steps()
    for _ in range(45):
        story.pass_time(60)
        story.sweep()
        if story.run.outcome is not None:
            break
    assert story.run.problem is not None
    assert story.run.problem.code == "budget-exhausted"
    account = shown_budget(story.world.ports, "b").account
    assert account is not None
    found = costs_of(story.world.ports, story.run_id).cost.usd
    assert found is not None
    assert account.spent_usd == pytest.approx(found, rel=0.01)
    assert 1.7 < account.spent_usd < 2.0
