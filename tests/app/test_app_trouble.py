"""After every kind of trouble: a clear state and reason, nothing lost, nothing left running."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.memory import Died
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, as_signed, in_training, make_cluster, record_fact, run_spec

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.machines.steps import run_step
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.app.sweep.sweep import sweep
from trainyard.domain import errors
from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import ClusterLost
from trainyard.domain.records import Cluster, Problem, Wait
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.commands import CommandResult
from trainyard.outside.seen_clusters import BackendCluster
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.commands import Submit, of_words
from trainyard_contracts.events import Fact


def problem(story: Story) -> Problem:
    assert story.run.problem is not None
    return story.run.problem


def assert_gone(story: Story) -> None:
    assert story.machines.running == []
    assert story.world.backend.clusters == {}
    assert story.world.secrets.names == set()


def test_a_lifecycle_script_that_fails_ends_the_run_with_the_tail_of_its_log_and_no_cluster() -> (
    None
):
    story = Story()
    story.submit()
    story.rest()
    story.world.backend.log = (
        "[trainyard] FAILED in step 'shared filesystem': mount: /fsx: no such device\nexit 32"
    )
    story.world.backend.advance(
        story.cluster.name, BackendStatus.FAILED, "Lifecycle scripts did not run successfully."
    )
    arn, name = story.cluster.arn, story.cluster.name
    detail = {"ClusterArn": arn, "ClusterName": name, "ClusterStatus": "Failed"}
    kind = "SageMaker HyperPod Cluster State Change"
    record_fact(
        story.world.ports,
        {"source": "aws.sagemaker", "detail-type": kind, "id": "e1", "detail": detail},
    )
    story.rest()
    assert story.run.status == "Failed"
    assert problem(story).code == "lifecycle-failed"
    assert "mount: /fsx: no such device\nexit 32" in problem(story).detail
    # People read the timeline and the list of runs line by line, so both get the line that counts.
    # The problem gets the whole tail.
    assert story.run.reason.endswith(
        "The lifecycle log says: [trainyard] FAILED in step 'shared filesystem': "
        "mount: /fsx: no such device"
    )
    assert "exit 32" not in story.said
    assert story.cluster.status == "Deleted"
    assert_gone(story)


def test_a_lifecycle_script_that_hangs_ends_at_the_deadline_and_says_that_its_log_is_empty() -> (
    None
):
    story = Story()
    story.submit(limits={"clusterDeadlineSeconds": 300})
    for _ in range(7):
        story.pass_time(61)
    assert story.run.status == "Failed"
    assert problem(story).code == "cluster-deadline"
    assert "The lifecycle log is empty." in problem(story).detail
    assert_gone(story)


def test_a_slurm_daemon_that_does_not_start_is_named_while_the_run_waits_and_ends_it() -> None:
    story = Story()
    story.submit()
    story.rest()
    story.world.backend.advance(story.cluster.name, BackendStatus.IN_SERVICE)
    why = "ip-1: slurmd does not listen on port 6818; its log says: no cgroup"
    story.send("NodeUnhealthy", node="ip-1", check="slurm-daemon", severity="error", detail=why)
    story.rest()
    assert (story.run.status, story.run.reason) == (
        "Provisioning",
        f"Waiting for cluster '{story.cluster.name}': {why}",
    )
    for _ in range(5):
        story.pass_time(61)
    assert story.run.status == "Failed"
    assert problem(story).code == "cluster-failed"
    assert why in problem(story).detail
    assert_gone(story)


def test_a_slurm_daemon_that_starts_late_is_forgotten() -> None:
    story = Story()
    story.submit()
    story.rest()
    story.world.backend.advance(story.cluster.name, BackendStatus.IN_SERVICE)
    for severity in ("error", "healthy"):
        story.send(
            "NodeUnhealthy", node="ip-1", check="slurm-daemon", severity=severity, detail="-"
        )
        story.world.clock.tick(1)
    story.rest()
    assert story.run.reason == f"Waiting for cluster '{story.cluster.name}' to be ready."
    for _ in range(6):
        story.pass_time(61)
    assert story.run.status == "Provisioning"


def test_a_lifecycle_log_that_cannot_be_read_does_not_hide_the_failure() -> None:
    story = Story()
    story.submit()
    story.rest()
    story.world.backend.refuse["log"] = errors.Throttled("slow down")
    story.world.backend.advance(
        story.cluster.name, BackendStatus.FAILED, "Lifecycle scripts did not run successfully."
    )
    story.pass_time(61)
    assert problem(story).code == "lifecycle-failed"
    assert "could not be read: slow down" in problem(story).detail
    assert_gone(story)


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (errors.BackendRejected("ResourceLimitExceeded: ml.m5.large"), "backend-rejected"),
        (errors.NoCapacity("InsufficientCapacity"), "no-capacity"),
        (errors.ClusterNameTaken("not ours"), "cluster-failed"),
    ],
)
def test_a_cluster_that_aws_refuses_ends_the_run_with_its_reason(
    refusal: errors.TrainyardError, code: str
) -> None:
    story = Story()
    story.world.backend.refuse["create"] = refusal
    story.submit()
    story.rest()
    assert story.run.status == "Failed"
    assert problem(story).code == code
    assert refusal.detail in problem(story).detail
    assert_gone(story)


def test_a_cluster_of_the_same_name_that_is_not_ours_is_never_deleted() -> None:
    story = Story()
    story.world.backend.refuse["create"] = errors.ClusterNameTaken("not ours")
    story.submit()
    foreign = replace(_foreign(), name=story.run.cluster_name)
    story.world.backend.clusters[foreign.name] = foreign
    story.rest()
    assert story.run.status == "Failed"
    assert story.world.backend.clusters[foreign.name].status == BackendStatus.IN_SERVICE


def _foreign() -> BackendCluster:
    return BackendCluster(
        "hyperpod",
        "arn:aws:sagemaker:us-east-1:123456789012:cluster/foreign00000",
        "x",
        BackendStatus.IN_SERVICE,
        "InService",
    )


def test_a_submission_that_fails_for_good_ends_the_run_clearly() -> None:
    story = Story()
    story.world.commands.answer = lambda cluster, argv: CommandResult(
        1, '{"error": "sbatch", "message": "no partition"}', ""
    )
    story.submit()
    story.ready()
    assert story.run.status == "Failed"
    assert problem(story).code == "submit-failed"
    assert "no partition" in problem(story).detail
    assert_gone(story)


def test_a_controller_that_is_unreachable_for_a_while_only_delays_the_submission() -> None:
    story = Story()
    left = [3]

    def flaky(cluster, argv):  # type: ignore[no-untyped-def]
        if left[0] > 0:
            left[0] -= 1
            raise errors.NodeUnreachable("TargetNotConnected")
        return story.agent(cluster, argv)

    story.world.commands.answer = flaky
    story.submit()
    story.ready()
    assert story.run.attempts[0].submitted_at is not None
    story.training()
    assert story.run.status == "Running"


def test_a_replacement_that_aws_refuses_does_not_hold_up_training() -> None:
    story = in_training()
    story.world.backend.refuse["replace"] = errors.BackendRejected("no capacity")
    story.lose("ip-127-0-1-12")
    assert story.run.attempts[-1].number == 2
    story.training("ip-127-0-1-13", "ip-127-0-1-14")
    assert story.run.actions == []
    assert "AWS did not replace ip-127-0-1-12: no capacity" in story.said
    assert story.run.outcome is None


def test_however_often_a_replacement_fails_for_good_training_goes_on() -> None:
    story = Story()
    story.submit(cluster={"spec": cluster_spec(workers=2, spares=8)}, recovery={"maxAttempts": 20})
    story.ready()
    story.training("ip-127-0-1-12", "ip-127-0-1-13")
    story.world.backend.refuse["replace"] = errors.RetryableError("AWS is away")
    for number in range(12, 19):
        story.lose(f"ip-127-0-1-{number}")
        story.training(f"ip-127-0-1-{number + 1}", f"ip-127-0-1-{number + 2}")
        assert story.run.actions == []
        assert (story.run.status, story.run.outcome) == ("Running", None)
    assert story.said.count("Step 'repair' failed") == 7


def test_a_job_whose_submission_was_never_answered_but_that_started_trains_on() -> None:
    story = Story()
    never_answers(story, starts=True)
    story.submit()
    story.ready()
    story.world.commands.answer = story.agent
    assert [(attempt.number, attempt.job_id) for attempt in story.run.attempts] == [(1, "100")]
    assert story.run.attempts[0].submitted_at is not None
    story.end()
    assert story.run.status == "Succeeded"
    assert_gone(story)


def test_a_job_whose_unanswered_submission_starts_late_is_stopped_and_exported() -> None:
    story = Story()
    make_cluster(story)
    never_answers(story, starts=False)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.machines.run_until_rest()
    assert problem(story).code == "submit-failed"
    story.send(
        "AttemptStarted",
        run=story.run_id,
        attempt=1,
        jobId=story.job,
        nodes=["ip-127-0-1-12", "ip-127-0-1-13"],
    )
    story.rest()
    assert story.agent.active == {}
    assert story.run.status == "Failed"
    assert story.run.reason.startswith("Step 'submit' failed")


def test_what_the_agent_says_of_a_field_is_the_runs_reason_as_it_is() -> None:
    story = Story()
    make_cluster(story)
    words = "job.secrets: there is no secret 'jobs/missing' in Secrets Manager"
    answer = json.dumps({"error": "secret-refused", "message": words})
    story.world.commands.answer = lambda cluster, argv: CommandResult(1, answer, "")
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    assert (story.run.status, story.run.reason) == ("Failed", words)
    assert (problem(story).code, problem(story).detail) == ("submit-failed", words)


def never_answers(story: Story, *, starts: bool) -> None:
    """Every submission reaches the agent, but no answer comes back."""

    def answer(cluster, argv):  # type: ignore[no-untyped-def]
        said = story.agent(cluster, argv)
        if argv[1] != "submit":
            return said
        if starts:
            story.send(
                "AttemptStarted",
                run=story.run_id,
                attempt=1,
                jobId=story.job,
                nodes=["ip-127-0-1-12", "ip-127-0-1-13"],
            )
        raise errors.NodeUnreachable("the session broke off")

    story.world.commands.answer = answer


def test_a_late_repetition_of_the_last_step_does_not_end_the_next_life() -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}, recovery={"maxAttempts": 1}))
    story.rest()
    story.end("failed", errorKind="signal", signal=9)
    resume_run(story.world.ports, story.run_id)
    for step in ("finish", "trouble"):
        run_step(
            story.world.ports,
            {"step": step, "runId": story.run_id, "generation": 1, "failedStep": "decide"},
        )
    assert (story.run.status, story.run.life, story.run.outcome, story.run.troubles) == (
        "Pending",
        2,
        None,
        0,
    )


@pytest.mark.parametrize("step", ["ensure-cluster", "await-outcome", "export", "teardown"])
def test_a_late_step_of_a_dead_execution_does_not_take_the_wait_of_the_one_that_follows_it(
    step: str,
) -> None:
    story = in_training()
    story.world.executions.started["run", f"{story.run_id}-1"].status = "ABORTED"
    story.world.clock.tick(31)
    story.sweep()
    before = story.world.waits.get(f"run:{story.run_id}")
    assert story.run.generation == 2
    story.world.executions.tokens["late"] = None
    run_step(
        story.world.ports, {"step": step, "runId": story.run_id, "generation": 1, "token": "late"}
    )
    assert story.world.waits.get(f"run:{story.run_id}") == before
    assert story.world.executions.tokens["late"] is not None
    story.end()
    assert story.run.status == "Succeeded"


def test_an_export_that_finds_the_disk_full_is_tried_three_times_then_the_cluster_is_kept() -> None:
    story = in_training()
    story.agent.export_ok = False
    story.end()
    assert story.run.status == "Failed"
    assert problem(story).code == "export-failed"
    assert "the disk of the controller is full" in problem(story).detail
    assert story.cluster.status == "Ready"
    with pytest.raises(errors.ClusterInUse, match="in no verified export"):
        delete_cluster(story.world.ports, story.cluster.name)


def test_an_export_whose_end_is_never_told_is_asked_for_again() -> None:
    story = in_training()
    story.agent.active.clear()
    story.send("AttemptEnded", run=story.run_id, attempt=1, jobId="100", outcome="succeeded")
    story.machines.run_until_rest()
    story.later.clear()
    story.agent.exported.clear()
    story.pass_time(601)
    assert story.run.status == "Succeeded"


def test_an_export_that_ends_before_the_step_that_asked_for_it_was_written_down_is_concluded() -> (
    None
):
    story = in_training()
    ask = story.agent.export

    def dies_after_asking(options: dict[str, str]) -> dict[str, object]:
        story.agent.export = ask  # type: ignore[method-assign]
        ask(options)
        type_, detail, run = story.later.pop()
        story.send(type_, run=run, **detail)
        raise Died("the answer never reached the step")

    story.agent.export = dies_after_asking  # type: ignore[method-assign,assignment]
    story.end()
    assert story.run.status == "Succeeded"
    assert story.run.export is not None
    assert story.run.export.tries == 1
    assert_gone(story)


def test_a_node_lost_while_exporting_does_not_disturb_the_export() -> None:
    story = in_training()
    story.agent.active.clear()
    story.send("AttemptEnded", run=story.run_id, attempt=1, jobId="100", outcome="succeeded")
    story.machines.run_until_rest()
    evidence = {
        "node": "ip-127-0-1-12",
        "instanceId": "i-00000012",
        "agent": "silent",
        "scheduler": "down",
    }
    story.send("NodeLost", about=evidence)
    story.rest()
    assert story.run.status == "Succeeded"
    assert len(story.run.attempts) == 1


def test_a_cluster_deleted_outside_trainyard_ends_the_run_by_two_signals() -> None:
    story = in_training()
    story.world.backend.clusters.clear()
    assert story.sweep() == []
    story.world.clock.tick(200)
    assert "cluster lost" in [swept.action for swept in story.sweep()]
    assert story.run.status == "Failed"
    assert problem(story).code == "cluster-failed"
    story.world.clock.tick(60)
    story.sweep()
    assert story.cluster.status == "Deleted"
    assert_gone(story)


def test_a_silent_controller_whose_backend_is_fine_is_left_alone() -> None:
    story = in_training()
    story.world.clock.tick(400)
    assert story.sweep() == []
    assert story.run.status == "Running"
    for _ in range(2):
        story.send("ClusterHeartbeat", nodes=[])
    assert story.said.count("is heard again, after 400 s of silence") == 1


def test_a_lost_start_execution_is_repaired_by_the_sweep() -> None:
    story = Story()
    start = story.world.executions.start
    story.world.executions.start = lambda *args: None  # type: ignore[method-assign]
    story.submit()
    story.world.executions.start = start  # type: ignore[method-assign]
    story.world.clock.tick(31)
    assert [swept.action for swept in story.sweep()] == ["started"]
    assert story.run.status == "Provisioning"


def test_a_dead_executions_next_generation_goes_on_where_the_run_stands() -> None:
    story = in_training()
    next(iter(story.world.executions.started.values())).status = "FAILED"
    story.world.clock.tick(31)
    assert "restarted" in [swept.action for swept in story.sweep()]
    assert story.run.generation == 2
    assert len(story.run.attempts) == 1
    story.end()
    assert story.run.status == "Succeeded"
    assert "started again (generation 2)" in story.said


def test_a_dead_cluster_machine_is_started_again() -> None:
    story = Story()
    story.submit()
    story.rest()
    story.world.executions.started["cluster", f"{story.cluster.name}-1"].status = "FAILED"
    story.world.clock.tick(31)
    assert "machine started" in [swept.action for swept in story.sweep()]
    story.ready()
    assert story.run.attempts


def test_what_the_sweep_cannot_do_for_one_cluster_it_still_does_for_the_others() -> None:
    story = Story()
    for name in ("broken", "idle"):
        make_cluster(story, name)
    story.world.clock.tick(7200)
    for name in ("broken", "idle"):
        story.beat(name)
    status = story.world.executions.status

    def fails_for_one(machine: str, name: str) -> str | None:
        if name.startswith("broken"):
            raise errors.BackendRejected("AccessDenied")
        return status(machine, name)

    story.world.executions.status = fails_for_one  # type: ignore[method-assign]
    assert [(swept.action, swept.subject) for swept in story.sweep()] == [
        ("failed", "idle_cluster broken"),
        ("teardown", "idle"),
    ]


def test_a_deletion_whose_machine_dies_again_and_again_is_never_given_up() -> None:
    story = Story()
    make_cluster(story)
    story.world.backend.refuse["delete"] = errors.ConflictError("an update runs")
    delete_cluster(story.world.ports, "shared")
    for _ in range(40):
        for _ in range(5):
            story.machines.step()
        for execution in story.world.executions.started.values():
            execution.status = "FAILED"
        story.world.clock.tick(61)
        assert [swept.action for swept in sweep(story.world.ports)] == ["machine started"]
    story.world.backend.refuse.clear()
    story.pass_time(61)
    assert_gone(story)


def test_a_cluster_whose_machine_dies_again_and_again_is_given_up_and_deleted() -> None:
    story = Story()
    create_cluster(story.world.ports, read_cluster_spec(cluster_spec("alone")))
    story.rest()
    for _ in range(27):
        for (machine, _name), execution in story.world.executions.started.items():
            execution.status = "FAILED" if machine == "cluster" else execution.status
        story.world.clock.tick(31)
        sweep(story.world.ports)
    story.rest()
    cluster = story.world.clusters.stored["alone"]
    assert cluster.status == "Deleted"
    assert cluster.problem is not None
    assert "died 25 times" in cluster.problem.detail
    assert_gone(story)


def test_a_job_that_could_not_be_stopped_when_its_run_ended_is_stopped_by_the_sweep() -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}, export={"enabled": False}))
    story.rest()
    story.training()

    def away(cluster, argv):  # type: ignore[no-untyped-def]
        raise errors.NodeUnreachable("TargetNotConnected")

    story.world.commands.answer = away
    story.cancel()
    story.rest()
    story.pass_time(121)
    assert story.run.status == "Cancelled"
    assert story.run_id in story.agent.active
    story.world.commands.answer = story.agent
    story.sweep()  # the run's last wait timed out and is still stored
    for seconds, actions in ((1, []), (61, ["job stopped"])):
        story.world.clock.tick(seconds)
        story.send("ClusterHeartbeat", nodes=[], runs=[{"runId": story.run_id, "attempt": 1}])
        assert [swept.action for swept in story.sweep()] == actions
    assert story.agent.active == {}


def test_an_idle_cluster_is_deleted_and_a_used_one_is_not() -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    story.world.clock.tick(7200)
    assert story.sweep() == []
    story.end()
    story.world.clock.tick(1801)
    story.beat("shared")
    assert [swept.action for swept in story.sweep()] == ["teardown"]
    story.pass_time(60)
    assert story.cluster.status == "Deleted"
    assert_gone(story)


def test_a_cluster_that_is_deleted_while_it_is_made_leaves_nothing() -> None:
    story = Story()
    create_cluster(story.world.ports, read_cluster_spec(cluster_spec("alone")))
    story.rest()
    delete_cluster(story.world.ports, "alone")
    story.rest()
    assert story.world.clusters.stored["alone"].status == "Deleted"
    assert_gone(story)


def test_a_wait_whose_time_ran_out_goes_with_its_cluster() -> None:
    """Nobody tells of a wait that ends by its time, and AWS tells nobody that a cluster is gone."""
    story = Story()
    cluster = make_cluster(story)
    waits, now = story.world.waits, story.world.clock.now()
    for owner, kind in (("cluster:shared", "in-service"), ("teardown:shared", "deleted")):
        assert waits.store(
            Wait.model_validate(
                {"owner": owner, "kind": kind, "token": f"spent-{kind}", "since": now}
            )
        )
    story.world.clusters.put(cluster.model_copy(update={"status": "Deleting"}))
    run_step(
        story.world.ports,
        {"step": "teardown-done", "clusterName": "shared", "generation": cluster.generation},
    )
    assert story.world.clusters.stored["shared"].status == "Deleted"
    assert waits.all() == []


def test_a_deletion_that_conflicts_with_another_operation_is_waited_out() -> None:
    story = Story()
    make_cluster(story)
    story.world.backend.refuse["delete"] = errors.ConflictError("an update runs")
    delete_cluster(story.world.ports, "shared")
    for _ in range(10):
        story.machines.step()
    assert story.world.clusters.stored["shared"].status == "Deleting"
    story.world.backend.refuse.clear()
    story.rest()
    assert story.world.clusters.stored["shared"].status == "Deleted"


def test_a_wait_that_was_woken_but_never_ended_is_ended_by_the_sweep() -> None:
    story = Story()
    story.submit()
    story.ready()
    wait = story.world.waits.get(f"run:{story.run_id}")
    assert wait is not None
    story.world.waits.mark_woken(wait.owner, wait.token, story.world.clock.now())
    story.world.clock.tick(21)
    assert [swept.action for swept in story.sweep()] == ["woken again"]


def parked(story: Story, type_: str, **detail: object) -> dict[str, object]:
    """An event of the run that on-fact could not record."""
    whole = {
        "id": story.world.ids.ulid(),
        "at": story.at,
        "clusterName": story.cluster.name,
        "clusterArn": story.cluster.arn,
        **detail,
    }
    envelope = {"source": "trainyard.agent", "detail-type": type_, "id": "e-1", "detail": whole}
    story.world.dead_letters.letters[str(whole["id"])] = json.dumps(
        as_signed(story.world.ports, envelope)
    )
    return whole


def test_what_on_fact_could_not_record_is_recorded_by_the_sweep_and_the_run_goes_on() -> None:
    story = in_training()
    step = parked(
        story, "AttemptStepped", runId=story.run_id, attempt=1, step=7, steppedAt=story.at
    )
    end = parked(
        story,
        "AttemptEnded",
        runId=story.run_id,
        attempt=1,
        jobId=story.job,
        outcome="succeeded",
        lastStep=200,
    )
    done = story.sweep()
    assert [(swept.action, swept.reason) for swept in done] == [
        ("dead letter", "recorded: fact of the run")
    ] * 2
    assert story.world.dead_letters.letters == {}
    assert story.run.status == "Succeeded"
    assert {step["id"], end["id"]} <= {fact.id for fact in story.world.runs.facts(story.run_id)}


def test_a_late_heartbeat_and_what_is_no_event_are_thrown_away() -> None:
    story = in_training()
    before = story.cluster.last_heartbeat_at
    story.world.clock.tick(30)
    parked(story, "ClusterHeartbeat", nodes=[], runs=[])
    story.world.dead_letters.letters.update(
        broken="{", number="1", foreign='{"source": "someone.else"}'
    )
    assert [swept.reason.split(":")[0] for swept in story.sweep()] == ["dropped"] * 4
    assert story.cluster.last_heartbeat_at == before
    assert story.world.dead_letters.letters == {}


@pytest.mark.parametrize("error", [errors.Throttled("slow down"), AttributeError("a defect")])
def test_a_dead_letter_that_cannot_be_recorded_stays_and_keeps_no_other_from_its_turn(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = in_training()
    stuck = parked(
        story, "AttemptStepped", runId=story.run_id, attempt=1, step=7, steppedAt=story.at
    )
    parked(
        story,
        "AttemptEnded",
        runId=story.run_id,
        attempt=1,
        jobId=story.job,
        outcome="succeeded",
        lastStep=200,
    )
    record = story.world.runs.record

    def refusing(run_id: str, fact: Fact, message: str) -> bool:
        if fact.id == stuck["id"]:
            raise error
        return record(run_id, fact, message)

    monkeypatch.setattr(story.world.runs, "record", refusing)
    assert [swept.action for swept in story.sweep()] == ["failed", "dead letter"]
    assert list(story.world.dead_letters.letters) == [stuck["id"]]
    assert story.run.status == "Succeeded"


def test_unknown_clusters_too_many_nodes_and_dying_clusters_are_refused() -> None:
    story = Story()
    with pytest.raises(errors.ClusterNotFound) as unknown:
        submit_run(story.world.ports, run_spec(cluster={"name": "nowhere"}))
    assert unknown.value.errors[0].field == "cluster.name"
    make_cluster(story)
    with pytest.raises(
        errors.InvalidRequest,
        match="3 nodes asked, but cluster 'shared' has 2 worker nodes; ask for at most 2",
    ):
        submit_run(story.world.ports, run_spec(cluster={"name": "shared"}, nodes=3))
    delete_cluster(story.world.ports, "shared")
    story.rest()
    with pytest.raises(errors.ClusterInUse, match="is Deleted"):
        submit_run(story.world.ports, run_spec(cluster={"name": "shared"}))


def test_the_same_key_is_the_same_run_and_another_body_is_refused() -> None:
    story = Story()
    first = submit_run(story.world.ports, run_spec(), idempotency_key="k")
    assert submit_run(story.world.ports, run_spec(), idempotency_key="k").id == first.id
    with pytest.raises(errors.IdempotencyConflict):
        submit_run(story.world.ports, run_spec(nodes=1), idempotency_key="k")


def test_a_repeated_submission_is_answered_with_its_run_whatever_became_of_the_cluster() -> None:
    story = Story()
    make_cluster(story)
    on_shared = run_spec(cluster={"name": "shared"})
    named, own = [
        submit_run(story.world.ports, spec, idempotency_key=key)
        for key, spec in (("named", on_shared), ("own", run_spec()))
    ]
    for run in (named, own):
        story.cancel(run.id)
        story.rest()
    delete_cluster(story.world.ports, "shared")
    story.rest()
    assert story.world.clusters.get("shared").status == "Deleted"
    assert submit_run(story.world.ports, on_shared, idempotency_key="named").id == named.id
    assert submit_run(story.world.ports, run_spec(), idempotency_key="own").id == own.id
    with pytest.raises(errors.ClusterInUse, match="is Deleted"):
        submit_run(story.world.ports, on_shared, idempotency_key="another")


def test_resume_of_a_running_a_succeeded_and_an_unknown_run_is_refused_clearly() -> None:
    story = Story()
    story.submit()
    with pytest.raises(errors.RunActive):
        resume_run(story.world.ports, story.run_id)
    story.ready()
    story.training()
    other = Story()
    other.submit()
    other.ready()
    other.training()
    other.end()
    with pytest.raises(errors.RunFinished):
        resume_run(other.world.ports, other.run_id)
    with pytest.raises(errors.RunFinished):
        other.cancel()
    with pytest.raises(errors.RunNotFound):
        resume_run(other.world.ports, "run-00000000000000000000000000")


def lose_controller(story: Story) -> list[str]:
    """The controller is off, AWS says so, and the sweep looks."""
    nodes = story.world.backend.node_lists[story.cluster.name]
    story.world.backend.node_lists[story.cluster.name] = [
        node.model_copy(update={"status": NodeState.FAILURE}) if node.role == "controller" else node
        for node in nodes
    ]
    story.world.clock.tick(181)
    return [swept.action for swept in story.sweep()]


def controller_back(story: Story) -> None:
    nodes = story.world.backend.node_lists[story.cluster.name]
    story.world.backend.node_lists[story.cluster.name] = [
        node.model_copy(update={"status": NodeState.RUNNING}) for node in nodes
    ]
    story.world.clock.tick(1)
    story.send("ClusterHeartbeat", nodes=[], runs=[])


def test_a_controller_that_came_back_and_is_lost_again_is_told_again() -> None:
    story = Story()
    make_cluster(story)
    for name in ("first", "second"):
        story.run_id = ""
        story.submit(run_spec(cluster={"name": "shared"}, export={"enabled": False}))
        story.rest()
        story.training()
        controller_back(story)
        story.world.clock.tick(170)
        assert story.sweep() == [], name
        assert lose_controller(story) == ["cluster lost"], name
        assert lose_controller(story) == [], "one silence is told once"
        assert (story.run.status, problem(story).code) == ("Failed", "cluster-failed")
        assert story.said.count("The controller of cluster 'shared' is lost") >= 1
        controller_back(story)
    assert len(Book(story.world.clusters.facts("shared")).of(ClusterLost)) == 2


def test_a_cluster_whose_controller_is_lost_is_kept_and_is_not_called_well() -> None:
    story = Story()
    story.submit(run_spec(export={"everySeconds": 60}, teardown="always"))
    story.ready()
    story.training()
    lose_controller(story)
    assert (story.run.status, story.cluster.status) == ("Failed", "Ready")
    assert "is kept: what the run made is in no verified export." in story.said
    other = "fs-0fedcba9876543210.fsx.us-east-1.amazonaws.com/hgfedcba"
    with pytest.raises(errors.WrongState, match="its controller is silent since") as refused:
        resume_run(story.world.ports, story.run_id, other)
    assert f"trainyard cluster delete {story.cluster.name} --force" in refused.value.next_step


def test_a_controller_that_sends_heartbeats_again_is_no_reason_to_stop_a_run() -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    story.training()
    wake, story.world.executions.succeed = (
        story.world.executions.succeed,
        lambda token, output: False,
    )  # type: ignore[method-assign]
    assert "cluster lost" in lose_controller(story)
    controller_back(story)
    story.world.executions.succeed = wake  # type: ignore[method-assign]
    story.pass_time(86400)
    assert (story.run.status, story.run.outcome) == ("Running", None)
    story.end()
    assert story.run.status == "Succeeded"


def test_a_silent_controller_whose_backend_is_fine_is_told_once() -> None:
    story = in_training()
    for _ in range(3):
        story.world.clock.tick(400)
        story.sweep()
    assert story.said.count("has sent no heartbeat since") == 1
    assert story.run.status == "Running"
    controller_back(story)
    story.world.clock.tick(400)
    story.sweep()
    assert story.said.count("has sent no heartbeat since") == 2


def test_why_a_cluster_that_is_being_created_is_not_deleted_yet_is_told_once() -> None:
    story = Story()
    story.submit()
    story.rest()
    story.world.backend.refuse["delete"] = errors.ConflictError("its status is Creating")
    story.cancel()
    for _ in range(60):
        story.machines.step()
    assert story.run.status == "TearingDown"
    told = [line for line in story.said.splitlines() if "AWS refuses to delete" in line]
    assert told == [
        f"AWS refuses to delete cluster '{story.cluster.name}' while it is being created; "
        "it is asked again until it does. "
        "(its status is Creating)"
    ]
    story.world.backend.refuse.clear()
    story.rest()
    assert story.run.status == "Cancelled"
    assert_gone(story)


def test_a_deletion_that_another_invocation_asked_for_first_is_no_refusal() -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    delete = story.world.backend.delete

    def asked_twice(name: str) -> bool:
        delete(name)
        raise errors.ConflictError("its status is Deleting")

    story.world.backend.delete = asked_twice  # type: ignore[method-assign]
    story.cancel()
    story.rest()
    delete_cluster(story.world.ports, "shared")
    story.rest()
    assert story.cluster.status == "Deleted"
    assert "refuses to delete" not in story.said
    assert_gone(story)


def test_a_submission_that_is_held_up_says_why_once() -> None:
    story = Story()
    left = [3]

    def cut_off(cluster, argv):  # type: ignore[no-untyped-def]
        answer = story.agent(cluster, argv)
        left[0] -= 1
        if left[0] >= 0:
            raise errors.NodeUnreachable(
                "the session's data channel broke off before the command ended: 1006"
            )
        return answer

    story.world.commands.answer = cut_off
    story.submit()
    story.ready()
    assert (
        story.said.count(
            "The submission of attempt 1 has no answer yet: the session's data channel broke off"
        )
        == 1
    )
    assert list(story.agent.jobs) == [(story.run_id, 1)]
    story.training()
    assert story.run.status == "Running"


def test_a_bundle_that_somebody_overwrote_is_told_and_written_again() -> None:
    story = Story()
    refusals = [
        '{"error": "bundle-changed", '
        '"message": "s3://data/bundle.json was overwritten after Trainyard wrote it"}'
    ] * 2

    def overwritten(cluster: Cluster, argv: list[str]) -> CommandResult:
        if not refusals:
            return story.agent(cluster, argv)
        command = of_words(argv[1:])
        assert isinstance(command, Submit)
        story.world.blobs.objects[command.bundle.split("/", 3)[3]] = b"{}"
        return CommandResult(1, refusals.pop(), "")

    story.world.commands.answer = overwritten
    story.submit()
    story.ready()
    told = (
        "The submission of attempt 1 was refused: trainyard-agent submit: "
        "s3://data/bundle.json was overwritten after Trainyard wrote it."
    )
    assert story.said.count(told) == 1
    story.training()
    assert story.run.status == "Running"


def test_an_agent_that_knows_no_hash_of_bundles_is_asked_without_it() -> None:
    story = Story()

    def older(cluster: Cluster, argv: list[str]) -> CommandResult:
        if argv[1] == "submit" and any(word.startswith("--sha256") for word in argv):
            return CommandResult(
                1, json.dumps({"error": "invalid-request", "message": OLDER_AGENT}), ""
            )
        return story.agent(cluster, argv)

    story.agent.checks_hash = False
    story.world.commands.answer = older
    story.submit()
    story.ready()
    story.training()
    assert story.run.status == "Running"
    assert "refused" not in story.said


#: As the agent of the commit before the option answers.
OLDER_AGENT = "--sha256 is not an option of 'submit'; it takes --run --attempt --bundle"


@pytest.mark.parametrize(
    ("asked", "needs"),
    [
        ({"checkpoint": {"watch": {"pattern": "a.pt"}}}, "watch"),
        ({"progress": {"tensorboard": "runs"}}, "progress"),
        ({"progress": "none"}, ""),
    ],
)
def test_an_agent_that_knows_no_watch_refuses_it_in_words_and_is_not_misused(
    asked: dict[str, object], needs: str
) -> None:
    story = Story()
    told: list[str] = []

    def older(cluster: Cluster, argv: list[str]) -> CommandResult:
        told.extend(word for word in argv if word.startswith("--needs"))
        if told:
            words = "--needs is not an option of 'submit'; it takes --run"
            return CommandResult(1, json.dumps({"error": "invalid-request", "message": words}), "")
        return story.agent(cluster, argv)

    story.world.commands.answer = older
    story.submit(**asked)  # type: ignore[arg-type]
    story.ready()
    assert told[:1] == ([f"--needs={needs}"] if needs else [])
    assert ("from a version of Trainyard that does not know this" in story.said) == bool(needs)
    if needs:
        assert story.run.status == "Failed"


def test_an_answer_of_the_agent_that_is_not_whole_is_asked_for_again() -> None:
    story = Story()
    said = ["", '{"jobId": "1', "[]"]
    story.world.commands.answer = lambda cluster, argv: (
        CommandResult(0, said.pop(), "") if said else story.agent(cluster, argv)
    )
    story.submit()
    story.ready()
    assert [attempt.job_id for attempt in story.run.attempts] == ["100"]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("overwritten", "final/model.pt has another checksum"),
        ("truncated", "final/model.pt has 5 bytes, not"),
        ("deleted", "final/model.pt is missing"),
        ("manifest replaced", "export-manifest.json is not what the agent wrote"),
        ("manifest deleted", "export-manifest.json is not in the data bucket"),
    ],
)
def test_what_changes_in_s3_before_it_is_verified_is_exported_again_and_keeps_the_cluster(
    what: str, reason: str
) -> None:
    story = in_training()
    export, blobs, statuses = story.agent.export, story.world.blobs, []
    prefix = story.run.export_prefix
    model, manifest = f"{prefix}final/model.pt", f"{prefix}export-manifest.json"

    def disturbed(options: dict[str, str]) -> dict[str, object]:
        answer = export(options)
        statuses.append(story.cluster.status)
        if len(statuses) == 1:
            if what == "overwritten":
                blobs.objects[model] = b"x" * len(blobs.objects[model])
            elif what == "truncated":
                blobs.objects[model] = blobs.objects[model][:5]
            elif what == "manifest replaced":
                whole = json.loads(blobs.objects[manifest])
                blobs.objects[manifest] = json.dumps({**whole, "objects": []}).encode()
            else:
                del blobs.objects[model if what == "deleted" else manifest]
        blobs.objects[f"{prefix}final/a-strangers.pt"] = b"of no matter"
        return answer

    story.agent.export = disturbed  # type: ignore[method-assign,assignment]
    story.end()
    assert f"Export failed (try 1): {reason}" in story.said.replace(prefix, "")
    assert statuses == ["Ready", "Ready"]
    assert story.run.status == "Succeeded"
    assert story.run.export is not None
    assert (story.run.export.state, story.run.export.tries, story.run.export.objects) == (
        "verified",
        2,
        1,
    )
    assert_gone(story)
