"""Two invocations at once for one run, and late ones: one cluster, one job, no lost wake-up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.facts import fact
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story

from trainyard.app.facts.situation import decide_now
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.await_outcome import await_outcome
from trainyard.app.machines.run.decide_run import save
from trainyard.app.machines.steps import run_step
from trainyard.domain import errors
from trainyard.outside.seen_clusters import BatchResult
from trainyard_contracts.events import AttemptEnded, Fact


def trained(**extra: object) -> Story:
    story = Story()
    story.submit(**extra)
    story.ready()
    story.training()
    return story


def test_of_two_decisions_at_once_only_the_one_that_is_saved_is_told() -> None:
    story = trained()
    before = story.run
    story.world.runs.record(before.id, _killed(story), "the process was killed")
    slow = decide_now(story.world.ports, before)
    story.send(
        "NodeLost",
        about={
            "node": "ip-127-0-1-12",
            "instanceId": "i-00000012",
            "agent": "silent",
            "scheduler": "down",
        },
    )
    story.rest()
    with pytest.raises(errors.ConflictError):
        save(story.world.ports, before, slow)
    assert [note.type for note in slow.notes] == ["Resuming"]
    assert sum("Attempt 2 is submitted" in line for line in story.said.splitlines()) == 1
    assert slow.notes[0].message not in story.said
    assert "Resuming on other nodes" in story.said


def _killed(story: Story) -> Fact:
    data = {
        "jobId": story.job,
        "outcome": "failed",
        "errorKind": "signal",
        "signal": 9,
        "failedNode": "ip-127-0-1-13",
    }
    return fact(AttemptEnded, "01END", story.world.clock.now(), 1, **data)


def test_a_wait_that_is_stored_late_does_not_take_the_place_of_the_one_that_is_waited_for() -> None:
    story = trained()
    waits, executions = story.world.waits, story.world.executions
    current = waits.get(f"run:{story.run_id}")
    assert current is not None
    executions.tokens["late"] = None
    late = StepInput(
        "await-outcome",
        run_id=story.run_id,
        token="late",
        entered_at=current.since - timedelta(seconds=1),
    )
    await_outcome(story.world.ports, late)
    assert waits.get(f"run:{story.run_id}") == current
    assert executions.tokens["late"] is not None, (
        "if it was the newest after all, its machine decides and waits again"
    )
    story.end()
    assert story.run.status == "Succeeded"


def test_a_repetition_of_the_wait_that_is_stored_changes_nothing() -> None:
    story = trained()
    current = story.world.waits.get(f"run:{story.run_id}")
    assert current is not None
    for seconds in (-1, 0, 1):
        again = StepInput(
            "await-outcome",
            run_id=story.run_id,
            token=current.token,
            entered_at=current.since + timedelta(seconds=seconds),
        )
        await_outcome(story.world.ports, again)
        assert story.world.executions.tokens[current.token] is None
    story.end()
    assert story.run.status == "Succeeded"


def test_a_trouble_whose_answer_was_lost_counts_once() -> None:
    story = trained()
    event = {
        "step": "trouble",
        "runId": story.run_id,
        "generation": 1,
        "failedStep": "decide",
        "error": {"Error": "X", "Cause": "x"},
    }
    answers = [
        run_step(story.world.ports, {**event, "enteredAt": "2026-11-20T12:00:00.123Z"})
        for _ in range(3)
    ]
    assert answers == [{"next": "decide"}] * 3
    assert story.run.troubles == 1
    assert story.said.count("Step 'decide' failed") == 1
    run_step(story.world.ports, {**event, "enteredAt": "2026-11-20T12:00:09.456Z"})
    assert story.run.troubles == 2


def test_a_replacement_that_another_invocation_asked_for_first_is_not_told_as_refused() -> None:
    story = trained(cluster={"spec": cluster_spec(workers=2, spares=2)})
    backend, twin = story.world.backend, story.world.backend.replace

    def taken(name: str, ids: list[str]) -> BatchResult:
        twin(name, ids)
        return BatchResult([], dict.fromkeys(ids, "InvalidInstanceStatus: it is ShuttingDown"))

    backend.replace = taken  # type: ignore[method-assign,assignment]
    story.lose("ip-127-0-1-12")
    story.training("ip-127-0-1-13", "ip-127-0-1-14")
    assert "ip-127-0-1-12 is being replaced already." in story.said
    assert "AWS refused" not in story.said
