"""A run's life as stories, on the real state machine definitions and in-memory ports."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from tests.support.facts import answering
from tests.support.spec_parts import FILESYSTEM, cluster_spec
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.decide_run import MOST_ACTIONS, MOST_SPENT, decide_run
from trainyard.app.runs.read_logs import read_logs
from trainyard.app.runs.request_export import request_export
from trainyard.app.runs.resume_run import resume_run
from trainyard.domain.errors import ConflictError
from trainyard.domain.observing import SETUP_SECONDS
from trainyard.domain.records import Action
from trainyard.domain.same_errors import EARLY_SECONDS
from trainyard.outside.commands import CommandResult

LOST = "ip-127-0-1-12"


def started(**extra: object) -> Story:
    story = Story()
    story.submit(**extra)  # type: ignore[arg-type]
    story.ready()
    story.training()
    return story


def assert_nothing_left(story: Story) -> None:
    assert story.machines.running == []
    assert story.world.backend.clusters == {}
    assert story.world.secrets.names == set()
    assert story.agent.active == {}
    assert story.world.waits.stored == {}


def test_a_healthy_run_makes_its_cluster_trains_exports_verifies_and_leaves_nothing() -> None:
    story = started()
    assert story.run.status == "Running"
    story.end(lastStep=200)
    assert story.run.status == "Succeeded"
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert story.run.cluster_deleted
    assert story.cluster.status == "Deleted"
    assert "Export verified: 1 object," in story.said
    assert_nothing_left(story)


def test_healthy_training_costs_no_transition() -> None:
    story = started()
    walker = next(walker for key, walker in story.machines.walkers.items() if key[0] == "run")
    before = len(walker.visited)
    for step in range(10, 100, 10):
        story.checkpoint(step)
        story.prune(step - 10)
        story.pass_time(60)
    assert len(walker.visited) == before


def test_what_a_decision_reads_does_not_grow_with_the_checkpoints() -> None:
    story = started()
    before = len(story.world.runs.facts(story.run_id))
    for step in range(10, 1000, 10):
        story.checkpoint(step)
    assert len(story.world.runs.facts(story.run_id)) == before
    assert story.said.count("is committed and verified") == 99
    story.lose(LOST)
    assert (
        "Resuming on other nodes from the newest whole checkpoint (step 990 as far as is known)."
        in story.said
    )


def test_a_lost_node_resumes_on_the_spare_from_the_last_whole_checkpoint() -> None:
    story = started()
    story.checkpoint(120)
    story.lose(LOST)
    run = story.run
    assert [attempt.outcome for attempt in run.attempts] == ["lost", None]
    assert run.attempts[1].exclude == [LOST]
    assert run.attempts[1].down == [LOST]
    assert story.agent.jobs[run.id, 2] == "101"
    assert story.world.backend.replaced == []
    because = "its agent fell silent and its Slurm daemon gives no answer."
    assert (
        f"{because} Resuming on other nodes from the newest whole checkpoint "
        "(step 120 as far as is known)." in story.said
    )
    story.training("ip-127-0-1-13", "ip-127-0-1-14", step=121)
    assert story.run.incidents[0].resumed_at is not None
    assert story.world.backend.replaced == ["i-00000012"]
    assert story.run.status == "Running"
    story.end(lastStep=200)
    assert story.run.status == "Succeeded"
    assert_nothing_left(story)
    [(recovery, seconds, cause), ended] = story.world.metrics.told
    assert (recovery, cause) == ("RecoverySeconds", {"cause": "node-lost"})
    [incident] = story.run.incidents
    assert incident.resumed_at is not None
    assert seconds == (incident.resumed_at - incident.started_at).total_seconds()
    assert ended == ("RunsEnded", 1, {"status": "Succeeded"})


def test_copies_without_a_known_step_are_no_steps_and_an_attempt_names_what_was_there() -> None:
    story = started()
    for number in (1, 2):
        path = f"watched/work+snapshot.pt-00/save-{number:012d}-step-{number:012d}-attempt-1"
        story.checkpoint(number, path=path, source="work/snapshot.pt", counted=True)
    story.lose(LOST)
    assert "the newest whole checkpoint (copy 2 as far as is known)" in story.said
    nodes = ["ip-127-0-1-13", "ip-127-0-1-14"]
    story.send("AttemptStarted", run=story.run_id, attempt=2, jobId=story.job, nodes=nodes)
    story.rest()
    first, second = story.run.attempts
    assert (first.began_with, second.began_with) == ("", "copy 2")
    story.checkpoint(40)
    page = story.world.runs.checkpoints(story.run_id, limit=9, token=None).items
    assert sorted((found.step, found.counted) for found in page) == [
        (1, True), (2, True), (40, False)
    ]  # fmt: skip


def test_the_newest_copy_is_named_and_not_the_one_with_the_largest_number() -> None:
    story = started()
    saves = [(1, 13, False), (2, 4, True), (3, 3, True)]
    for number, step, counted in saves:
        path = f"watched/work+snapshot.pt-00/save-{number:012d}-step-{step:012d}-attempt-1"
        story.checkpoint(step, path=path, source="work/snapshot.pt", counted=counted)
    story.lose(LOST)
    assert "the newest whole checkpoint (copy 3 as far as is known)" in story.said


def test_the_restart_goes_first_and_the_replacement_is_asked_for_behind_the_runs_back() -> None:
    story = started()
    order: list[str] = []
    submit, replace = story.agent.submit, story.world.backend.replace
    story.agent.submit = lambda options: (order.append("submit"), submit(options))[1]  # type: ignore[method-assign,func-returns-value]
    story.world.backend.replace = lambda name, ids: (order.append("replace"), replace(name, ids))[1]  # type: ignore[method-assign,func-returns-value]
    story.lose(LOST)
    assert order == ["submit"]
    story.pass_time(61)
    assert order == ["submit", "replace"]


def test_what_a_fault_cost_is_told_when_it_is_known() -> None:
    story = started()
    story.checkpoint(110)
    evidence = [{"node": LOST, "instanceId": "i-00000012", "agent": "silent", "scheduler": "down"}]
    story.end("failed", lastStep=127, errorKind="node", failedNode=LOST, nodes=evidence)
    assert story.run.attempts[1].exclude == [LOST]
    assert "step 110 as far as is known" in story.said
    assert "lost" not in story.said.splitlines()[-1]
    # A checkpoint was committed in the moment of the loss, so the new attempt found a newer one.
    story.training(step=121)
    assert "Training goes on from step 120, " in story.said
    assert (
        "after the fault was noticed; the last step reported before was 127, so 7 steps are lost."
        in story.said
    )


def test_no_cost_is_told_while_the_end_of_the_lost_attempt_is_not_known() -> None:
    story = started()
    story.checkpoint(120)
    story.lose(LOST)
    story.training("ip-127-0-1-13", "ip-127-0-1-14", step=121)
    [line] = [line for line in story.said.splitlines() if "Training goes on" in line]
    assert line.endswith("s after the fault was noticed.")


@pytest.mark.parametrize(
    ("reached", "words"), [(120, "no step is"), (118, "no step is"), (121, "1 step is")]
)
def test_a_cost_is_never_negative(reached: int, words: str) -> None:
    story = started()
    kill_process(story, reached)
    story.training(step=121)
    assert f"; the last step reported before was {reached}, so {words} lost." in story.said


def test_a_start_from_the_beginning_costs_every_step() -> None:
    story = started()
    kill_process(story, 9)
    assert "Starting again in place; no whole checkpoint is known yet." in story.said
    story.training(step=1)
    assert "Training goes on from the beginning, " in story.said
    assert "so 9 steps are lost." in story.said


def test_an_attempt_is_submitted_before_it_runs_though_slurm_is_faster_than_the_answer() -> None:
    story = Story()
    submit = story.agent.submit

    def slow_answer(options: dict[str, str]) -> dict[str, object]:
        answer = submit(options)
        story.send(
            "AttemptStarted",
            run=story.run_id,
            attempt=1,
            jobId=answer["jobId"],
            nodes=["ip-127-0-1-12", "ip-127-0-1-13"],
        )
        story.world.clock.tick(0.2)
        return answer

    story.agent.submit = slow_answer  # type: ignore[method-assign]
    story.submit()
    story.ready()
    lines = story.said.splitlines()
    told = [
        number
        for number, line in enumerate(lines)
        if "Attempt 1 is submitted" in line or "Attempt 1 runs as job" in line
    ]
    assert ["submitted" in lines[number] for number in told] == [True, False]


def test_a_pruned_checkpoint_is_never_the_newest_whole_one() -> None:
    story = started()
    for step in (100, 110, 120):
        story.checkpoint(step)
    for step in (120, 100):
        story.prune(step)
    story.lose(LOST)
    assert "from the newest whole checkpoint (step 110 as far as is known)." in story.said


def test_a_job_that_fails_because_of_a_lost_node_is_not_taken_for_a_program_error() -> None:
    story = started()
    evidence = [{"node": LOST, "instanceId": "i-00000012", "agent": "silent", "scheduler": "down"}]
    story.end(
        "failed",
        lastStep=127,
        errorKind="python-error",
        error="RuntimeError: connection closed by peer",
        nodes=evidence,
    )
    assert story.run.incidents[0].cause == "node-lost"
    assert story.run.attempts[1].exclude == [LOST]
    assert story.run.attempts[1].down == []
    story.training("ip-127-0-1-13", "ip-127-0-1-14")
    story.lose(LOST)
    assert len(story.run.attempts) == 2
    assert story.world.backend.replaced == ["i-00000012"]


def test_a_lost_spare_changes_nothing_for_the_job_and_is_replaced() -> None:
    story = started()
    story.lose("ip-127-0-1-14")
    assert len(story.run.attempts) == 1
    assert story.world.backend.replaced == ["i-00000014"]
    assert "The run does not use it, so training goes on; no spare is left." in story.said


def test_nothing_is_repaired_on_a_cluster_that_is_about_to_go() -> None:
    story = started()
    story.lose(LOST)
    story.end()
    assert story.run.status == "Succeeded"
    assert story.world.backend.replaced == []
    assert_nothing_left(story)


def test_a_silent_agent_changes_nothing_and_is_said() -> None:
    story = started()
    story.send("AgentSilent", about={"node": LOST, "agent": "silent", "scheduler": "up"})
    story.rest()
    assert len(story.run.attempts) == 1
    assert (
        f"The agent on {LOST} is silent, but its Slurm daemon answers: nothing is done to the job."
        in story.said
    )


@pytest.mark.parametrize("scheduler", ["down", "unknown"])
def test_of_a_node_that_does_not_answer_at_all_nothing_is_said_that_is_not_known(
    scheduler: str,
) -> None:
    story = started()
    detail = "no beat for 3.6 s; slurmd does not answer; training stepped 0.4 s ago"
    story.send(
        "AgentSilent",
        about={"node": LOST, "agent": "silent", "scheduler": scheduler, "detail": detail},
    )
    story.rest()
    assert len(story.run.attempts) == 1
    assert (
        f"The agent on {LOST} is silent ({detail}). Whether the node is lost is not known yet: "
        "nothing is done to the job." in story.said
    )


def test_an_attempt_that_waits_behind_another_job_is_given_the_node_that_returns() -> None:
    story = started()
    story.lose(LOST)
    assert story.agent.excluded[story.run_id, 2] == [LOST]
    assert story.world.backend.replaced == []
    ahead = [{"jobId": "17", "user": "alice", "nodes": ["ip-127-0-1-14"]}]
    story.send(
        "AttemptQueued",
        run=story.run_id,
        attempt=2,
        jobId=story.job,
        reason="Resources",
        ahead=ahead,
    )
    story.rest()
    assert (
        story.run.reason
        == "Attempt 2 waits in Slurm's queue behind job 17 of alice on ip-127-0-1-14."
    )
    assert story.run.reason in story.said
    assert story.world.backend.replaced == ["i-00000012"]
    story.send("NodeReturned", about=answering(LOST, "i-new"))
    story.rest()
    assert story.agent.excluded[story.run_id, 2] == []
    assert (
        f"Told Slurm that attempt 2, which waits in its queue, may use {LOST} again." in story.said
    )
    story.training(LOST, "ip-127-0-1-13")
    assert (story.run.status, len(story.run.attempts)) == ("Running", 2)


def test_an_agent_that_cannot_change_a_waiting_job_is_told_of_and_not_asked_again() -> None:
    story = started()
    story.lose(LOST)
    refused = {
        "error": "invalid-request",
        "message": "the first argument must be one of submit, cancel",
    }
    story.world.commands.answer = lambda _cluster, _argv: CommandResult(1, json.dumps(refused), "")
    story.send("NodeReturned", about=answering(LOST, "i-new"))
    story.rest()
    assert story.said.count("The nodes of the waiting job could not be changed") == 1
    assert story.run.outcome is None


def test_without_a_spare_the_run_waits_for_the_node_and_goes_on_when_it_returns() -> None:
    story = started(cluster={"spec": cluster_spec(workers=2)})
    story.checkpoint(50)
    story.lose(LOST)
    assert story.run.status == "WaitingForNode"
    assert "No spare is left: 1 of 2 nodes are usable." in story.said
    assert story.world.backend.replaced == ["i-00000012"]
    story.send("NodeReturned", about=answering(LOST, "i-new"))
    story.rest()
    assert story.run.attempts[-1].number == 2
    assert story.run.attempts[-1].exclude == []
    assert (
        "A node is back. Resuming from the newest whole checkpoint (step 50 as far as is known)."
        in story.said
    )


def test_a_node_that_never_returns_ends_the_run_with_its_checkpoints_exported() -> None:
    story = started(cluster={"spec": cluster_spec(workers=2)}, recovery={"waitForNodeSeconds": 600})
    story.lose(LOST)
    story.pass_time(599)
    assert story.run.status == "WaitingForNode"
    story.pass_time(3)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "nodes-exhausted"
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert_nothing_left(story)


def problem_code(story: Story) -> str:
    assert story.run.problem is not None
    return story.run.problem.code


def kill_process(story: Story, step: int = 10) -> None:
    story.end("failed", errorKind="signal", signal=9, failedNode=LOST, lastStep=step)


def test_a_killed_worker_process_restarts_in_place_and_leaves_the_node_when_it_repeats_there() -> (
    None
):
    story = started()
    kill_process(story)
    assert story.run.attempts[1].exclude == []
    assert (
        f"A worker process on {LOST} was killed by SIGKILL. Starting again in place" in story.said
    )
    story.training()
    kill_process(story, 20)
    assert story.run.attempts[2].exclude == []
    story.training()
    kill_process(story, 30)
    assert story.run.attempts[3].exclude == [LOST]
    assert story.run.attempts[3].down == []
    assert story.world.backend.replaced == []


def test_an_excluded_node_is_not_left_out_when_nothing_else_is_free() -> None:
    story = started(
        cluster={"spec": cluster_spec(workers=2)}, recovery={"inPlaceRestartsPerNode": 0}
    )
    kill_process(story)
    assert story.run.attempts[1].exclude == []
    assert "no other node is free" in story.said


OTHER = "ip-127-0-1-13"
NO_MEMORY = {
    "errorKind": "out-of-memory",
    "signal": 9,
    "error": "the kernel's out-of-memory killer ended process 7 (python)",
}


def test_a_job_without_memory_is_tried_once_more_and_stopped_and_no_node_is_blamed() -> None:
    story = started()
    story.end("failed", failedNode=LOST, lastStep=20, **NO_MEMORY)
    assert f"The job ran out of memory at step 20 on {LOST}" in story.said
    story.training()
    story.end("failed", failedNode=OTHER, lastStep=19, logTail="loading", **NO_MEMORY)
    assert (story.run.status, len(story.run.attempts), story.run.excluded_nodes) == (
        "Failed",
        2,
        [],
    )
    assert story.run.problem is not None
    assert story.run.problem.code == "out-of-memory"
    for words in (
        "out-of-memory killer ended process 7",
        "time 2 without coming further",
        "loading",
    ):
        assert words in story.run.problem.detail
    assert "Lower the batch size" in story.run.problem.next_step
    assert story.world.backend.replaced == []
    assert_nothing_left(story)


def test_an_accelerator_without_memory_is_told_from_a_host_and_stops_without_a_step() -> None:
    story = Story()
    story.submit()
    story.ready()
    said = {
        "errorKind": "out-of-memory",
        "error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        "memory": "device",
        "traceback": 'Traceback (most recent call last):\n  File "train.py", line 7\nOut',
    }
    for node in (LOST, OTHER):
        waiting_for_its_first_step(story)
        story.pass_time(400)
        story.end("failed", failedNode=node, logTail="all ranks at once", **said)
    assert (story.run.status, len(story.run.attempts)) == ("Failed", 2)
    assert story.run.excluded_nodes == []
    assert story.run.problem is not None
    assert story.run.problem.code == "device-out-of-memory"
    assert "Another node of this instance type has no more" in story.run.problem.next_step
    assert "An accelerator of the job ran out of memory" in story.run.problem.detail
    assert f"It failed here on {OTHER}:\nTraceback (most" in story.run.problem.detail
    assert "all ranks at once" not in story.run.problem.detail


def test_a_job_that_comes_further_each_time_before_its_memory_is_used_up_goes_on() -> None:
    story = started()
    for step in (20, 40, 60):
        story.end("failed", failedNode=LOST, lastStep=step, **NO_MEMORY)
        story.training()
    assert (len(story.run.attempts), story.run.attempts[3].exclude) == (4, [])
    story.end("failed", failedNode=LOST, lastStep=60, **NO_MEMORY)
    assert story.run.status == "Failed"


def waiting_for_its_first_step(story: Story, *nodes: str) -> None:
    story.send(
        "AttemptStarted",
        run=story.run_id,
        attempt=story.attempt,
        jobId=story.job,
        nodes=list(nodes or (OTHER, LOST)),
    )
    story.rest()


def test_the_same_signal_before_the_first_step_on_two_nodes_is_the_same_error() -> None:
    story = Story()
    story.submit()
    story.ready()
    for node in (LOST, OTHER):
        waiting_for_its_first_step(story)
        story.end("failed", errorKind="signal", signal=9, failedNode=node, logTail="Killed")
    assert (story.run.status, len(story.run.attempts), story.run.excluded_nodes) == (
        "Failed",
        2,
        [],
    )
    assert story.run.problem is not None
    assert story.run.problem.code == "same-error"
    assert (
        "'signal 9' came 2 times before the first step. End of the job's log:\nKilled"
        in story.run.problem.detail
    )


@pytest.mark.parametrize(
    ("number", "second", "status", "attempts"),
    [(11, 5, "Failed", 4), (11, 6, "Recovering", 5), (9, 5, "Recovering", 5)],
)
def test_a_crash_at_the_same_step_on_another_node_is_the_programs(
    number: int, second: int, status: str, attempts: int
) -> None:
    story = Story()
    story.submit()
    story.ready()
    for node, step in ((LOST, 5), (LOST, 5), (LOST, 5), (OTHER, second)):
        story.training()
        story.end("failed", errorKind="signal", signal=number, failedNode=node, lastStep=step)
    assert (story.run.status, len(story.run.attempts)) == (status, attempts)
    code = story.run.problem.code if story.run.problem else None
    assert code == ("same-error" if status == "Failed" else None)


def test_nodes_that_were_restarted_before_the_first_step_are_no_error_of_the_programs() -> None:
    story = Story()
    story.submit()
    story.ready()
    for node in (LOST, OTHER, LOST):
        waiting_for_its_first_step(story)
        story.end(
            "failed", errorKind="signal", signal=9, failedNode=node, error=f"{node} was restarted"
        )
    assert (story.run.status, len(story.run.attempts)) == ("Recovering", 4)


@pytest.mark.parametrize(
    "how", [{"errorKind": "signal", "signal": 9, "failedNode": LOST}, {"errorKind": "python-error"}]
)
def test_a_program_that_reports_no_steps_and_saves_each_time_is_not_the_same_error(
    how: dict[str, object],
) -> None:
    story = Story()
    story.submit(recovery={"inPlaceRestartsPerNode": 10})
    story.ready()
    for step in (2, 4, 6):
        waiting_for_its_first_step(story)
        story.checkpoint(step)
        story.end("failed", **how)
    assert (story.run.status, len(story.run.attempts)) == ("Recovering", 4)
    assert "before the first step" not in story.said


def test_what_slurm_ended_is_not_said_to_be_the_programs_failure() -> None:
    story = Story()
    story.submit()
    story.ready()
    waiting_for_its_first_step(story)
    story.end("failed", errorKind="unknown", error="Slurm: srun: Force Terminated StepId=1.0")
    assert (
        "The job failed before the first step with 'Slurm: srun: Force Terminated StepId=1.0'"
        in story.said
    )
    assert "The program failed" not in story.said
    assert len(story.run.attempts) == 2


@pytest.mark.parametrize(("seconds", "status"), [(20, "Failed"), (4000, "Recovering")])
def test_of_a_program_that_reports_no_steps_only_what_fails_soon_and_again_is_the_same_error(
    seconds: float, status: str
) -> None:
    story = Story()
    story.submit()
    story.ready()
    for more in (0, 7):  # hours of work do not end at the same tenth of a second
        waiting_for_its_first_step(story)
        story.pass_time(seconds + more)
        story.end("failed", errorKind="python-error", error="OSError: the data did not come")
    assert (story.run.status, len(story.run.attempts)) == (status, 2 if status == "Failed" else 3)
    assert ("before the first step" in story.said) == (status == "Failed")


WRONG = {
    "errorKind": "python-error",
    "error": "NameError: name 'steps' is not defined",
    "exception": "NameError",
    "lasting": True,
    "traceback": 'Traceback (most recent call last):\n  File "train.py", line 3\nNameError: ...',
}


def test_an_error_that_no_other_attempt_can_heal_ends_the_run_at_the_first() -> None:
    story = Story()
    story.submit()
    story.ready()
    waiting_for_its_first_step(story)
    story.end("failed", failedNode=LOST, **WRONG)
    assert (story.run.status, len(story.run.attempts)) == ("Failed", 1)
    assert story.run.problem is not None
    assert story.run.problem.code == "lasting-error"
    assert "failed before the first step with 'NameError: name 'steps'" in story.said
    assert "trying again would not help" in story.said
    assert 'File "train.py", line 3' in story.run.problem.detail
    assert "trainyard run rerun" in story.run.problem.next_step
    assert "resume" not in story.run.problem.next_step
    assert_nothing_left(story)


def test_what_an_earlier_attempt_found_is_looked_for_once_more() -> None:
    story = started()
    story.lose(LOST)
    others = ("ip-127-0-1-13", "ip-127-0-1-14")
    waiting_for_its_first_step(story, *others)
    story.end("failed", **WRONG)
    assert (story.run.status, len(story.run.attempts)) == ("Recovering", 3)
    waiting_for_its_first_step(story, *others)
    story.end("failed", **WRONG)
    assert story.run.problem is not None
    assert (story.run.status, story.run.problem.code) == ("Failed", "same-error")


def test_an_image_that_took_long_to_fail_is_the_same_error_at_the_same_place() -> None:
    story = Story()
    story.submit()
    story.ready()
    words = "job.image 'a/b:1' cannot be used: enroot import ended with 1: No space left on device"
    for seconds in (4000, 4007):
        waiting_for_its_first_step(story)
        story.pass_time(seconds)
        story.end("failed", errorKind="python-error", error=words)
    assert (story.run.status, len(story.run.attempts)) == ("Failed", 2)
    assert "The job failed before the first step with 'job.image 'a/b:1'" in story.said
    assert "The program failed" not in story.said


def test_the_same_words_after_the_first_step_get_another_attempt() -> None:
    story = started()
    story.end("failed", lastStep=42, **WRONG)
    assert (story.run.status, len(story.run.attempts)) == ("Recovering", 2)


def test_a_crash_after_the_program_ended_well_is_a_success_that_the_timeline_tells() -> None:
    story = started()
    remark = f"{LOST}: process 7 was killed by SIGABRT after its program had ended well."
    story.end("succeeded", lastStep=42, remark=remark)
    assert story.run.status == "Succeeded"
    assert f"succeeded after step 42. {remark}" in story.said


def steps_by_its_log(story: Story, step: int) -> None:
    """The newest attempt runs, and its log says this step."""
    waiting_for_its_first_step(story)
    words = {"step": step, "steppedAt": story.at, "source": "log"}
    story.send("AttemptStepped", run=story.run_id, attempt=story.attempt, **words)
    story.rest()


PASSING = {"errorKind": "python-error", "error": "OSError: the data did not come"}


def test_a_program_that_reports_nothing_and_comes_further_each_time_is_tried_again() -> None:
    story = Story()
    story.submit()
    story.ready()
    for last in (105, 210, 315):
        steps_by_its_log(story, last - 104)
        assert story.run.status == "Running"
        story.end("failed", lastStep=last, stepSource="log", **PASSING)
    assert (story.run.status, len(story.run.attempts)) == ("Recovering", 4)
    assert "before the first step" not in story.said
    assert "Attempt 2 trains: its log says step 106." in story.said
    assert "Training goes on (its log says step 106), " in story.said
    assert "from the beginning" not in story.said
    assert "steps are lost" not in story.said, "where such a program began nobody said"


def without_steps(**extra: Any) -> Story:
    story = Story()
    story.submit(**{"progress": "none", **extra})
    story.ready()
    return story


def begin(story: Story, *nodes: str, **detail: Any) -> None:
    """The newest attempt's job begins; its program tells nothing."""
    told = {"run": story.run_id, "attempt": story.attempt, "jobId": story.job}
    story.send("AttemptStarted", **told, nodes=list(nodes or (LOST, "ip-127-0-1-13")), **detail)
    story.rest()


def told(story: Story, type_: str) -> int:
    return sum(notice.type == type_ for notice in story.world.runs.notices.values())


def test_a_program_that_tells_no_step_runs_from_its_start_and_is_told_of_once() -> None:
    story = without_steps()
    assert story.run.status == "Submitting"
    begin(story)
    nodes = f"{LOST}, ip-127-0-1-13"
    assert story.run.status == "Running"
    assert story.run.reason == f"Attempt 1 runs on {nodes}; no step has been told yet."
    walker = next(walker for key, walker in story.machines.walkers.items() if key[0] == "run")
    before = len(walker.visited)
    story.pass_time(7200)
    assert told(story, "run.started") == 1
    story.sweep()
    assert story.run.status == "Running"
    assert len(walker.visited) == before, "it costs nothing to wait for no step"
    assert told(story, "run.started") == 0, "it is sent"
    story.end()
    assert (story.run.status, story.run.incidents) == ("Succeeded", [])
    assert_nothing_left(story)


def test_the_first_step_says_that_it_trains() -> None:
    story = Story()
    story.submit()
    story.ready()
    begin(story)
    assert story.run.reason.endswith("no step has been told yet.")
    stepped(story)
    assert (story.run.status, story.run.reason) == ("Running", "Attempt 1 trains.")
    assert told(story, "run.started") == 1


def stepped(story: Story, step: int = 1) -> None:
    about = {"run": story.run_id, "attempt": story.attempt, "resumedFrom": step - 1 or None}
    story.send("AttemptStepped", **about, step=step, steppedAt=story.at)
    story.rest()


def test_an_incident_of_a_program_without_steps_is_over_once_it_runs_again_and_lives() -> None:
    story = without_steps()
    begin(story)
    story.pass_time(1000)
    story.lose(LOST)
    assert story.run.status == "Recovering"
    begin(story, "ip-127-0-1-13", "ip-127-0-1-14")
    began = story.run.attempts[1].started_at
    assert story.run.status == "Running"
    story.pass_time(EARLY_SECONDS - 1)
    assert story.run.incidents[0].resumed_at is None, "what fails so soon has not gone on"
    assert told(story, "run.recovered") == 0
    story.pass_time(2)
    [incident] = story.run.incidents
    assert (incident.resumed_at, incident.resumed_by) == (began, "start")
    assert "The program runs again: attempt 2 started 0.0 s after the fault" in story.said
    assert "It has told no step." in story.said
    assert told(story, "run.recovered") == 1
    assert told(story, "run.started") == 2, "one for each attempt"
    story.end()
    assert story.run.status == "Succeeded"
    assert [name for name, *_ in story.world.metrics.told] == ["RunsEnded"], (
        "how long a recovery took nobody knows without a step"
    )


def test_what_ends_well_without_a_step_had_gone_on() -> None:
    story = without_steps()
    begin(story)
    story.lose(LOST)
    begin(story, "ip-127-0-1-13", "ip-127-0-1-14")
    story.end()
    [incident] = story.run.incidents
    assert (story.run.status, incident.resumed_by) == ("Succeeded", "start")
    assert incident.resumed_at == story.run.attempts[1].started_at


def test_what_fails_soon_again_without_a_step_had_not_gone_on() -> None:
    story = without_steps()
    begin(story)
    story.lose(LOST)
    begin(story, "ip-127-0-1-13", "ip-127-0-1-14")
    story.pass_time(60)
    story.end("failed", errorKind="signal", signal=9, error="killed")
    assert [one.resumed_at for one in story.run.incidents] == [None, None]
    begin(story, "ip-127-0-1-13", "ip-127-0-1-14")
    story.pass_time(EARLY_SECONDS + 1)
    assert {one.resumed_at for one in story.run.incidents} == {story.run.attempts[2].started_at}


def test_where_steps_were_told_only_a_new_step_is_a_recovery() -> None:
    story = started()
    story.lose(LOST)
    begin(story, "ip-127-0-1-13", "ip-127-0-1-14")
    story.pass_time(EARLY_SECONDS + 100)
    assert (story.run.status, story.run.incidents[0].resumed_at) == ("Recovering", None)
    stepped(story, 5)
    assert (story.run.status, story.run.incidents[0].resumed_by) == ("Running", "step")
    assert told(story, "run.recovered") == 1


def test_a_step_that_comes_late_corrects_what_the_start_had_closed() -> None:
    story = Story()
    story.submit()
    story.ready()
    begin(story)
    story.lose(LOST)
    begin(story, "ip-127-0-1-13", "ip-127-0-1-14")
    story.pass_time(EARLY_SECONDS + 100)
    assert story.run.incidents[0].resumed_by == "start"
    stepped(story)
    [incident] = story.run.incidents
    assert incident.resumed_by == "step"
    assert incident.resumed_at == story.run.attempts[1].first_step_at
    [(name, seconds, _)] = story.world.metrics.told
    assert (name, seconds > EARLY_SECONDS) == ("RecoverySeconds", True)
    assert told(story, "run.recovered") == 1, "it was told already"


def test_a_job_whose_nodes_are_still_set_up_does_not_run_yet() -> None:
    story = without_steps()
    begin(story, waitsFor=[LOST])
    words = f"Attempt 1 starts on {LOST}, ip-127-0-1-13. It waits until {LOST} is set up."
    assert (story.run.status, story.run.reason) == ("Submitting", words)
    story.pass_time(SETUP_SECONDS - 1)
    assert story.run.status == "Submitting"
    story.pass_time(2)
    assert story.run.status == "Running"


def test_a_checkpoint_proves_that_the_program_runs() -> None:
    story = without_steps()
    begin(story, waitsFor=[LOST])
    path = "watched/work+a.pt-00/save-000000000001-step-000000000001-attempt-1"
    story.checkpoint(1, path=path, source="work/a.pt", counted=True)
    story.lose("ip-127-0-1-14")  # a spare; the run is looked at
    assert story.run.status == "Running"


def test_a_log_prints_some_steps_only_so_the_same_one_takes_once_more_to_be_the_same_error() -> (
    None
):
    story = Story()
    story.submit()
    story.ready()
    for count in (1, 2, 3):
        assert story.run.status != "Failed"
        steps_by_its_log(story, 1)
        story.end("failed", lastStep=500, stepSource="log", **PASSING)
        assert len(story.run.attempts) == min(3, count + 1)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert "came 3 times at step 500" in story.run.problem.detail


def test_what_was_put_back_and_what_is_not_kept_safe_is_in_the_timeline() -> None:
    story = started()
    copy = "watched/work+snapshot.pt-0/save-000000000001-step-000000000040-attempt-1"
    of_run = {"run": story.run_id, "attempt": 1}
    for source in ("work/snapshot.pt", "work/best.pt"):
        story.send(
            "CheckpointCommitted", **of_run, step=40, path=copy.replace("snapshot", source[5:]),
            bytes=9, files=1, committedAt=story.at, source=source,
        )  # fmt: skip
    story.send(
        "CheckpointRejected", **of_run, step=40, path="work/snapshot.pt", reason="it ends early"
    )
    story.send(
        "CheckpointRestored", **of_run, source="work/snapshot.pt", path=copy, step=40,
        reason="it ends early", setAside="work/.torn-attempt-1.snapshot.pt",
    )  # fmt: skip
    story.send("WatchWarned", **of_run, reason="Nothing was saved as 'x' in an hour.")
    story.rest()
    for words in (
        "The program's checkpoint 'work/snapshot.pt' (step 40) is whole, copied and verified",
        "The program's checkpoint 'work/snapshot.pt' is torn: it ends early.",
        "Before attempt 1, 'work/snapshot.pt' was put back from the copy of step 40. What was "
        "there: it ends early. It is 'work/.torn-attempt-1.snapshot.pt' now.",
        "Nothing was saved as 'x' in an hour.",
    ):
        assert words in story.said
    listed = story.world.runs.checkpoints(story.run_id, limit=9, token=None).items
    assert sorted(item.status for item in listed) == ["rejected", "whole", "whole"]
    story.lose(LOST)
    assert "from the newest whole checkpoint (step 40 as far as is known)" in story.said


def test_what_is_in_s3_while_it_trains_and_what_comes_back_is_in_the_timeline() -> None:
    story = started()
    of_run = {"run": story.run_id, "attempt": 1}
    done = {"everySeconds": 600.0, "objects": 12, "bytes": 2048, "lastStep": 40, "leftOut": 3}
    story.send("ResultsSynced", **of_run, **done)
    denied = {"trouble": "denied", "reason": "HTTP 403: AccessDenied"}
    story.send("SyncFailed", **of_run, **denied, behindSeconds=1250.0)
    story.send("SyncFailed", **of_run, trouble="unreachable", reason="no route")
    story.send("SyncFailed", **of_run, trouble="slow", reason="one took 900 s")
    back = {"source": "sync", "ageSeconds": 720.0, "files": 37, "bytes": 4096}
    story.send("RunRestored", **of_run, **back, step=40, checkpoints=1, skipped=["x: is gone"])
    story.send("RunRestored", **of_run, **{**back, "source": "export"}, checkpoints=0)
    story.rest()
    for words in (
        "What the run has so far is in S3: 12 files, 2.0 KiB, newest checkpoint of step 40. It is "
        "copied every 600 s. 3 files are not copied.",
        "S3 has what was there 21 minutes before. Training goes on, and it is tried again. S3 "
        "refuses it: look whether the data bucket's policy",
        "(HTTP 403: AccessDenied)",
        "S3 has nothing of it yet. Training goes on",
        "A copy takes longer than the interval",
        "Before attempt 1, the checkpoint of step 40 and 37 files (4.0 KiB) were brought from S3, "
        "as they were copied there 12 minutes before. Not brought: x: is gone.",
        "as they were exported 12 minutes before. There was no whole checkpoint.",
    ):
        assert words in story.said, words
    assert story.run.status == "Running"


def test_the_same_python_error_at_the_same_step_stops_the_run_with_its_evidence() -> None:
    story = started()
    error = {
        "errorKind": "python-error",
        "error": "ValueError: bad batch",
        "lastStep": 42,
        "logTail": "Traceback\nValueError: bad batch",
    }
    story.end("failed", **error)
    assert len(story.run.attempts) == 2
    assert "Trying once more" in story.said
    story.training()
    story.end("failed", **error)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "same-error"
    assert "ValueError: bad batch" in story.run.problem.detail
    assert "Traceback" in story.run.problem.detail
    assert len(story.run.attempts) == 2
    assert_nothing_left(story)


def test_different_errors_are_bounded_by_the_attempts() -> None:
    story = started(recovery={"maxAttempts": 3})
    for step in (1, 2, 3):
        story.end("failed", errorKind="python-error", error="OSError: disk", lastStep=step)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "attempts-exhausted"
    assert len(story.run.attempts) == 3


def test_a_torn_newest_checkpoint_changes_nothing_but_the_step_that_is_resumed_from() -> None:
    story = started()
    story.checkpoint(100)
    story.checkpoint(120)
    path = "checkpoints/step-000000000120-attempt-1"
    story.send(
        "CheckpointRejected",
        run=story.run_id,
        attempt=1,
        step=120,
        path=path,
        reason="model.pt: SHA-256 differs",
    )
    story.rest()
    assert len(story.run.attempts) == 1
    kill_process(story, 125)
    assert "from the newest whole checkpoint (step 100 as far as is known)." in story.said
    kept = story.world.runs.checkpoints(story.run_id, limit=10, token=None).items
    assert [(item.step, item.status) for item in kept] == [(120, "rejected"), (100, "whole")]


def test_a_cancelled_run_stops_its_job_exports_and_leaves_nothing() -> None:
    story = started()
    story.cancel()
    story.cancel()
    story.rest()
    assert story.run.status == "Cancelled"
    assert story.run.problem is not None
    assert story.run.problem.code == "cancelled"
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert ["trainyard-agent", "cancel", f"--run={story.run_id}"] in story.world.commands.ran
    assert story.cancel().status == "Cancelled"
    assert_nothing_left(story)


def test_a_run_cancelled_while_its_cluster_is_made_leaves_nothing() -> None:
    story = Story()
    story.submit()
    story.rest()
    story.cancel()
    story.rest()
    assert story.run.status == "Cancelled"
    assert_nothing_left(story)


def test_the_longest_duration_stops_exports_and_tears_down() -> None:
    story = started(limits={"maxDurationSeconds": 3600})
    story.pass_time(3601)
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "duration-exceeded"
    assert_nothing_left(story)


def test_an_export_that_does_not_verify_keeps_the_cluster_with_the_only_copy() -> None:
    story = started()
    story.agent.corrupt = True
    story.end()
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "export-failed"
    assert "final/model.pt has" in story.run.problem.detail
    assert story.cluster.status == "Ready"
    assert story.run.export is not None
    assert story.run.export.tries == 3
    story.world.clock.tick(100_000)
    assert [swept.action for swept in story.sweep()] == ["kept"]
    assert story.cluster.status == "Ready"


def test_a_file_that_went_up_in_parts_is_verified_by_the_checksum_of_its_parts() -> None:
    story = started()
    story.agent.composite = "b2YgdGhlIHBhcnRz-11"
    story.end()
    assert story.run.export is not None
    assert (story.run.export.state, story.run.export.tries) == ("verified", 1)
    other = started()
    other.agent.composite = "b2YgdGhlIHBhcnRz-11"
    head = other.world.blobs.head
    other.world.blobs.head = lambda key: (head(key)[0], "b3RoZXIgcGFydHM-11")  # type: ignore[method-assign,index]
    other.end()
    assert problem_code(other) == "export-failed"


def test_an_export_without_the_newest_checkpoint_is_none() -> None:
    story = started()
    story.checkpoint(120)
    story.agent.final_model = False
    story.cancel()
    story.rest()
    assert story.run.status == "Cancelled"
    assert story.run.export is not None
    assert (story.run.export.state, story.run.export.tries) == ("failed", 3)
    assert "the checkpoint of step 120 is not in it" in story.said
    assert story.cluster.status == "Ready"


def test_an_export_need_not_hold_what_was_pruned() -> None:
    story = started()
    story.checkpoint(120)
    story.prune(120)
    story.agent.final_model = False
    story.cancel()
    story.rest()
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert_nothing_left(story)


def test_an_export_of_an_ended_run_saves_what_its_cluster_still_holds_and_lets_it_go() -> None:
    story = started()
    story.agent.corrupt = True
    story.end()
    story.agent.corrupt = False
    request_export(story.world.ports, story.run_id)
    story.rest()
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert story.cluster.status == "Deleted"
    assert story.run.status == "Succeeded"


def test_an_export_while_training_disturbs_nothing() -> None:
    story = started()
    request_export(story.world.ports, story.run_id)
    story.rest()
    assert story.run.status == "Running"
    assert story.run.export is not None
    assert story.run.export.state == "verified"
    assert not story.run.export.final
    story.end()
    assert story.run.export.final
    assert story.run.status == "Succeeded"


def test_two_runs_share_a_cluster_and_neither_deletes_it() -> None:
    story = Story()
    make_cluster(story, workers=4)
    first = story.submit(run_spec(cluster={"name": "shared"}))
    second = story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    assert {run for run, _ in story.agent.jobs} == {first.id, second.id}
    story.training()
    story.end()
    assert story.run.status == "Succeeded"
    assert story.world.runs.stored[second.id].status in ("Submitting", "Running")
    assert story.cluster.status == "Ready"


def test_a_run_that_made_its_cluster_leaves_it_to_another_run_that_uses_it() -> None:
    story = started()
    other = story.submit(run_spec(cluster={"name": story.cluster.name}))
    story.rest()
    story.end()
    assert story.run.status == "Succeeded"
    assert story.cluster.status == "Ready"
    assert f"is used by {other.id}" in story.said


def test_a_failed_run_resumes_in_a_new_life_with_new_budgets() -> None:
    story = Story()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}, recovery={"maxAttempts": 1}))
    story.rest()
    story.checkpoint(10)
    story.end("failed", errorKind="signal", signal=9, failedNode=LOST)
    assert story.run.status == "Failed"
    resume_run(story.world.ports, story.run_id)
    story.rest()
    assert story.run.life == 2
    assert story.attempt == 2
    assert (
        "Submitting the job from the newest whole checkpoint (step 10 as far as is known)."
        in story.said
    )
    story.end()
    assert story.run.status == "Succeeded"


def test_a_run_older_than_cluster_roles_resumes_where_its_new_clusters_nodes_may_read() -> None:
    story = Story()
    story.submit()
    story.world.runs.put(story.run.model_copy(update={"objects_prefix": ""}))
    story.ready()
    story.training()
    story.checkpoint(10)
    story.world.blobs.put(
        f"runs/{story.run_id}/logs/attempt-1.log", b"what the first attempt printed"
    )
    story.cancel()
    story.rest()
    resume_run(story.world.ports, story.run_id)
    story.ready()
    story.training()
    below = f"clusters/{story.run.cluster_name}/runs/{story.run_id}"
    assert f"{below}/attempts/2/bundle.json" in story.world.blobs.objects
    assert (
        read_logs(story.world.ports, story.run_id, attempt=1).text
        == "what the first attempt printed"
    )
    story.end()
    assert story.run.status == "Succeeded"
    assert story.run.export_prefix == f"{below}/export/"


def test_a_cancelled_run_whose_cluster_is_gone_goes_on_with_a_new_one_on_the_same_filesystem() -> (
    None
):
    story = Story()
    story.submit()
    story.ready()
    story.training()
    story.checkpoint(10)
    story.cancel()
    story.rest()
    assert (story.run.status, story.run.cluster_deleted) == ("Cancelled", True)
    resume_run(story.world.ports, story.run_id)
    story.ready()
    assert (story.run.life, story.attempt) == (2, 2)
    assert (
        "Submitting the job from the newest whole checkpoint (step 10 as far as is known)."
        in story.said
    )


def test_what_befell_an_earlier_clusters_nodes_says_nothing_of_a_later_one_of_its_name() -> None:
    story = Story()
    make_cluster(story, spares=0)
    story.submit(
        run_spec(
            cluster={"name": "shared"},
            recovery={"inPlaceRestartsPerNode": 0, "waitForNodeSeconds": 0},
            nodes=1,
        )
    )
    story.rest()
    story.training(LOST)
    kill_process(story)
    assert story.run.excluded_nodes == [LOST]
    story.training("ip-127-0-1-13")
    story.lose("ip-127-0-1-13")
    assert problem_code(story) == "nodes-exhausted"
    story.pass_time(10)
    delete_cluster(story.world.ports, "shared")
    story.pass_time(10)
    make_cluster(story, spares=0)
    resume_run(story.world.ports, story.run_id)
    story.rest()
    assert story.run.attempts[-1].exclude == []
    assert story.run.attempts[-1].down == []
    assert story.run.excluded_nodes == []


def test_a_later_cluster_of_the_same_name_on_another_filesystem_holds_nothing_of_an_ended_run() -> (
    None
):
    story = Story()
    make_cluster(story)
    story.submit(
        run_spec(cluster={"name": "shared"}, export={"enabled": False}, recovery={"maxAttempts": 1})
    )
    story.rest()
    story.training()
    kill_process(story)
    delete_cluster(story.world.ports, "shared")
    story.pass_time(10)
    make_cluster(story, sharedFilesystem={**FILESYSTEM, "mountName": "another"})
    with pytest.raises(ConflictError, match="is Ready that holds") as refused:
        resume_run(story.world.ports, story.run_id)
    assert f"({FILESYSTEM['dnsName']}/abcdefgh)" in refused.value.next_step
    with pytest.raises(ConflictError, match="holds nothing of it any more"):
        request_export(story.world.ports, story.run_id)


def test_ten_runs_at_once_all_end() -> None:
    story = Story()
    ids = [story.submit().id for _ in range(10)]
    for run_id in ids:
        story.run_id = run_id
        story.ready()
        story.training()
    for run_id in ids:
        story.run_id = run_id
        story.end()
    assert {story.world.runs.stored[run_id].status for run_id in ids} == {"Succeeded"}
    assert_nothing_left(story)


def test_an_execution_whose_history_is_nearly_full_hands_the_run_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[decide_run.__module__], "MOST_SPENT", 100)
    story = started()
    for _ in range(6):
        story.end(outcome="failed", errorKind="signal", signal=9)
        story.training()
    assert story.run.generation > 1
    assert (
        sum(
            walker.execution.status == "RUNNING"
            for key, walker in story.machines.walkers.items()
            if key[0] == "run"
        )
        == 1
    )
    story.end(lastStep=200)
    assert story.run.status == "Succeeded"
    assert_nothing_left(story)


def test_a_decision_that_is_repeated_when_the_history_is_full_starts_one_execution() -> None:
    story = started()
    given = StepInput(
        "decide", run_id=story.run_id, generation=story.run.generation, spent=MOST_SPENT
    )
    before = story.run
    assert [decide_run(story.world.ports, given)["next"] for _ in range(2)] == [
        "superseded",
        "superseded",
    ]
    assert story.run == before
    assert [name for machine, name in story.world.executions.started if machine == "run"] == [
        f"{story.run_id}-{before.generation}", f"{story.run_id}-{before.generation + 1}",
    ]  # fmt: skip


def test_a_thousand_actions_go_through_the_machine_in_portions_that_its_state_holds() -> None:
    story = started()
    actions = [
        Action(id=f"a{n}", kind="cancel-job", node=f"ip-10-0-{n}", reason="x" * 5000)
        for n in range(1000)
    ]
    world = story.world
    world.runs.put(world.runs.get(story.run_id).model_copy(update={"actions": actions}))
    world.clock.tick(600)
    answer = decide_run(
        world.ports, StepInput("decide", run_id=story.run_id, generation=story.run.generation)
    )
    assert (answer["next"], len(answer["actions"])) == ("repair", MOST_ACTIONS)
    assert len(json.dumps(answer)) < 128 * 1024
    assert len(story.run.actions) == 1000
