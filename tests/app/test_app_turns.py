"""Runs that share a cluster have turns: by priority, fair, within limits, whatever dies when."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.clusters.label_cluster import label_cluster
from trainyard.app.runs.give_turns import give_turns
from trainyard.app.runs.label_run import label_run
from trainyard.app.runs.submit_array import submit_array
from trainyard.app.runs.submit_run import submit_run
from trainyard.domain.records import Run
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.people import Person
from trainyard_contracts.sharing import SharingLimit, SharingSpec


def person(name: str) -> Person:
    arn = f"arn:aws:iam::111122223333:user/{name}"
    return Person(id=name, arn=arn, account="111122223333", name=name, kind="user")


def on_shared(nodes: int = 1, **sharing: Any) -> Story:
    """A cluster of so many nodes, which a run of one node has all or some of."""
    story = Story()
    make_cluster(story, workers=nodes, spares=0, **sharing)
    return story


def submit(story: Story, by: str = "ann", nodes: int = 1, **extra: Any) -> str:
    spec = run_spec(nodes=nodes, cluster={"name": "shared"}, **extra)
    run = submit_run(story.world.ports, spec, by=person(by))
    story.rest()
    return run.id


def run_of(story: Story, run_id: str) -> Run:
    return story.world.runs.stored[run_id]


def submitted(story: Story) -> list[str]:
    """In the order in which the agent was asked."""
    return [run_id for run_id, _ in story.agent.jobs]


def end(story: Story, run_id: str, outcome: str = "succeeded", **detail: Any) -> None:
    story.run_id = run_id
    if run_of(story, run_id).attempts[-1].started_at is None:
        story.training("a")
    story.end(outcome, **detail)


def test_a_run_waits_until_another_has_ended_and_then_begins_by_itself() -> None:
    story = on_shared()
    first, second = submit(story), submit(story)
    waiting = run_of(story, second)
    assert (waiting.status, submitted(story)) == ("Waiting", [first])
    assert waiting.reason == (
        "Waiting for its turn on cluster 'shared': other runs have its nodes, or come before it."
    )
    story.pass_time(100)
    end(story, first)
    assert submitted(story) == [first, second]
    end(story, second)
    assert run_of(story, second).status == "Succeeded"
    assert "Its turn has come." in "\n".join(story.world.runs.messages(second))


def test_time_that_a_run_waits_for_its_turn_is_none_of_its_longest_duration() -> None:
    story = on_shared()
    first = submit(story)
    second = submit(story, limits={"maxDurationSeconds": 60})
    story.pass_time(600)
    story.sweep()
    assert run_of(story, second).status == "Waiting"
    end(story, first)
    story.pass_time(40)
    story.sweep()
    assert run_of(story, second).outcome is None
    story.pass_time(40)
    story.sweep()
    assert run_of(story, second).problem.code == "duration-exceeded"  # type: ignore[union-attr]


def test_a_run_on_whose_cluster_there_is_room_never_waits() -> None:
    story = on_shared(nodes=2)
    first, second = submit(story), submit(story)
    assert submitted(story) == [first, second]
    assert "WaitingForTurn" not in story.world.runs.messages(second)


def test_the_higher_priority_begins_first_and_a_person_may_change_it_while_it_waits() -> None:
    story = on_shared()
    first, low, usual = submit(story), submit(story, priority=-5), submit(story)
    last = submit(story)
    label_run(story.world.ports, last, {}, priority=50)
    for run_id in (first, last, usual, low):
        end(story, run_id)
    assert submitted(story) == [first, last, usual, low]
    assert run_of(story, last).spec.priority == 0


def test_a_run_that_recovers_keeps_its_turn() -> None:
    story = on_shared()
    first, second = submit(story), submit(story, priority=90)
    end(story, first, "failed", errorKind="signal", signal=9, failedNode="a")
    assert story.agent.active == {first: 2}
    assert run_of(story, second).status == "Waiting"


def test_a_limit_of_a_label_keeps_the_second_run_and_not_that_of_others() -> None:
    limits = {"limits": [{"label": "team", "maxRuns": 1}]}
    story = on_shared(nodes=9, sharing=limits)
    first = submit(story, labels={"team": "vision"})
    second = submit(story, labels={"team": "vision"})
    other = submit(story, by="bob", labels={"team": "speech"})
    assert submitted(story) == [first, other]
    assert run_of(story, second).reason == (
        "Waiting for its turn on cluster 'shared': label team=vision may use at most 1 run here "
        "at once, and uses 1 run with 1 node; this one needs 1 node."
    )
    end(story, first)
    assert submitted(story) == [first, other, second]


def test_a_limit_that_is_taken_away_lets_the_sweep_give_the_turn() -> None:
    limit = SharingSpec(limits=[SharingLimit(owner="*", max_nodes=1)])
    story = on_shared(nodes=2)
    label_cluster(story.world.ports, "shared", {}, sharing=limit)
    first, second = submit(story), submit(story)
    story.sweep()
    assert submitted(story) == [first]
    label_cluster(story.world.ports, "shared", {}, sharing=SharingSpec())
    story.sweep()
    assert submitted(story) == [first, second]


def array(story: Story, by: str, total: int) -> str:
    run = run_spec(nodes=1, cluster={"name": "shared"})
    job = run.job.changed(arguments=["{n}"])
    spec = ArraySpec(
        run=run.changed(job=job, name=by),
        matrix={"n": [str(one) for one in range(total)]},
        max_parallel=20,
    )
    made = submit_array(story.world.ports, spec, by=person(by))
    story.rest()
    return made.id


def test_an_array_of_two_hundred_keeps_nobody_waiting_and_all_end() -> None:
    """Bob's three members and Cid's run begin beside Ann's two hundred, not after them."""
    story = on_shared(nodes=10)
    array(story, "ann", 200)
    array(story, "bob", 3)
    alone = submit(story, by="cid")
    at = 0
    while at < len(submitted(story)):
        end(story, submitted(story)[at])
        at += 1
    begun = submitted(story)
    owners = [run_of(story, one).created_by.name for one in begun]  # type: ignore[union-attr]
    assert len(begun) == 204
    assert sorted(owners[10:14]) == ["bob", "bob", "bob", "cid"]
    assert begun.index(alone) < 14
    assert {run.status for run in story.world.runs.stored.values()} == {"Succeeded"}


def test_cancelling_the_run_that_has_the_nodes_begins_the_next() -> None:
    story = on_shared()
    first, second = submit(story), submit(story)
    story.cancel(first)
    story.rest()
    assert submitted(story) == [first, second]


def test_a_run_that_waits_for_its_turn_is_cancelled_at_once() -> None:
    story = on_shared()
    first, second = submit(story), submit(story)
    story.cancel(second)
    story.rest()
    assert run_of(story, second).status == "Cancelled"
    assert submitted(story) == [first]


def test_an_event_that_comes_twice_gives_one_turn() -> None:
    story = on_shared()
    first, second, third = submit(story), submit(story), submit(story)
    end(story, first)
    for _ in range(3):
        give_turns(story.world.ports, "shared")
        story.sweep()
    assert submitted(story) == [first, second]
    assert run_of(story, third).status == "Waiting"


@pytest.mark.parametrize("line", range(1, 90, 2))
def test_wherever_a_process_dies_the_next_run_begins_and_only_one(line: int) -> None:
    story = on_shared()
    first, second, third = submit(story), submit(story), submit(story)
    story.run_id = first
    story.training("a")
    story.world.fuse.arm(line)
    try:
        story.end()
    except BaseException:  # noqa: BLE001 - the process died
        story.world.fuse.arm(None)
    story.world.fuse.arm(None)
    for _ in range(4):
        story.pass_time(61)
        story.sweep()
    assert run_of(story, first).status == "Succeeded"
    assert submitted(story) == [first, second]
    assert run_of(story, third).status == "Waiting"
    for run_id in (second, third):
        end(story, run_id)
    assert run_of(story, third).status == "Succeeded"


def test_a_run_after_another_asks_for_its_turn_when_that_one_has_ended() -> None:
    """Until then it keeps nobody waiting, whatever its priority."""
    story = on_shared(nodes=2)
    first, busy = submit(story), submit(story)
    child = submit(story, after=[first], priority=90)
    assert "It begins after" in run_of(story, child).reason
    other = submit(story)
    end(story, first)
    assert submitted(story) == [first, busy, other]
    assert "Waiting for its turn" in run_of(story, child).reason
    later = submit(story)
    end(story, busy)
    assert submitted(story) == [first, busy, other, child]
    assert run_of(story, later).status == "Waiting"
