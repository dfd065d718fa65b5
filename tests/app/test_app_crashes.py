"""The process dies before or after any call of a port, and the run still ends clearly."""

from __future__ import annotations

import os
import random

import pytest
from tests.support.memory import Died
from tests.support.story import Story, record_fact

from trainyard.domain.states import BackendStatus

LOST = "ip-127-0-1-12"


def survive(story: Story) -> None:
    """Machines go on; what a lost wake-up left is found by the sweep."""
    story.rest()
    story.world.clock.tick(61)
    try:
        story.sweep()
    except Died:
        story.world.fuse.arm(None)
        story.sweep()


def live(story: Story) -> None:
    """A whole life: made, trained, a node lost, resumed, exported, torn down. Any phase may die."""
    deliver_submit(story)
    story.rest()
    story.world.backend.advance(story.cluster.name, BackendStatus.IN_SERVICE)
    story.send("ClusterReady", nodes=["a", "b", "c"])
    survive(story)
    first = ["ip-127-0-1-12", "ip-127-0-1-13"]
    story.send("AttemptStarted", run=story.run_id, attempt=1, jobId="100", nodes=first)
    story.send("AttemptStepped", run=story.run_id, attempt=1, step=1, steppedAt=story.at)
    survive(story)
    story_checkpoint(story)
    evidence = {"node": LOST, "instanceId": "i-00000012", "agent": "silent", "scheduler": "down"}
    story.send("NodeLost", about=evidence)
    survive(story)
    story.send(
        "AttemptStarted",
        run=story.run_id,
        attempt=2,
        jobId="101",
        nodes=["ip-127-0-1-13", "ip-127-0-1-14"],
    )
    story.send(
        "AttemptStepped", run=story.run_id, attempt=2, step=121, resumedFrom=120, steppedAt=story.at
    )
    survive(story)
    story.agent.active.clear()
    story.send(
        "AttemptEnded", run=story.run_id, attempt=2, jobId="101", outcome="succeeded", lastStep=200
    )
    for _ in range(4):
        survive(story)


def deliver_submit(story: Story) -> None:
    from tests.support.story import run_spec

    from trainyard.app.runs.submit_run import submit_run

    for _ in range(2):
        try:
            run = submit_run(story.world.ports, run_spec(), idempotency_key="key-1")
            story.run_id = run.id
            return
        except Died:
            story.world.fuse.arm(None)


def story_checkpoint(story: Story) -> None:
    path = "checkpoints/step-000000000120-attempt-1"
    detail = {
        "attempt": 1,
        "step": 120,
        "path": path,
        "bytes": 1,
        "files": 1,
        "committedAt": story.at,
    }
    story.send("CheckpointCommitted", run=story.run_id, **detail)


def calls_of_a_life() -> int:
    story = Story()
    story.world.fuse.arm(None)
    live(story)
    return story.world.fuse.calls


CALLS = calls_of_a_life()


def assert_clear_end(story: Story, where: str) -> None:
    run = story.run
    assert run.status == "Succeeded", f"{where}: {run.status} because {run.reason}"
    assert [attempt.number for attempt in run.attempts] == [1, 2], where
    assert run.export is not None, where
    assert run.export.state == "verified", where
    assert len(run.incidents) == 1, where
    assert story.machines.running == [], where
    assert story.world.backend.clusters == {}, where
    assert story.world.secrets.names == set(), where
    assert story.world.backend.replaced == ["i-00000012"], where
    messages = [line for line in story.said.splitlines() if "Resuming on other nodes" in line]
    assert len(messages) == 1, f"{where}: {messages}"


#: The fast suite kills at every fifth call, at other ones before the call than after it.
#: TRAINYARD_EVERY_CALL=1 kills at each one.
STRIDE = 1 if os.environ.get("TRAINYARD_EVERY_CALL") else 5


@pytest.mark.parametrize("after", [False, True], ids=["before-the-call", "after-the-call"])
def test_a_process_that_dies_at_any_call_leaves_a_clear_end(after: bool) -> None:
    for call in range(1 + 2 * after, CALLS + 1, STRIDE):
        story = Story()
        story.world.fuse.arm(call, after=after)
        live(story)
        assert_clear_end(story, f"died {'after' if after else 'before'} call {call}")


def test_duplicated_and_reordered_facts_change_nothing_about_the_end() -> None:
    for seed in range(20):
        shuffle = random.Random(seed)
        story = Story()
        story.submit()
        story.ready()
        story.training()
        story.checkpoint(120)
        sent = [story.sent]
        for step in (130, 140):
            story.checkpoint(step)
            sent.append(story.sent)
        story.lose(LOST)
        sent.append(story.sent)
        old = len(story.run.attempts)
        shuffle.shuffle(sent)
        for envelope in sent * 3:
            record_fact(story.world.ports, envelope)
            story.rest()
        assert len(story.run.attempts) == old == 2
        story.training("ip-127-0-1-13", "ip-127-0-1-14", step=141)
        for envelope in sent:
            record_fact(story.world.ports, envelope)
            story.rest()
        story.end()
        assert story.run.status == "Succeeded"
        assert story.world.backend.clusters == {}
