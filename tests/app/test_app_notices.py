"""People's rules hear of a run's story: each thing once, whatever dies on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.support.memory import Died
from tests.support.story import Story

from trainyard.app.sweep.sweep import sweep


@pytest.fixture
def story() -> Story:
    return Story()


def heard(story: Story) -> list[str]:
    return [event.type for event in story.world.notices.events]


def told(story: Story) -> None:
    """Until nothing is left to be told: that of a finished run's cluster comes with its end."""
    story.sweep()
    story.sweep()


def test_a_run_that_recovers_and_succeeds(story: Story) -> None:
    story.submit(labels={"team": "vision"})
    story.ready()
    story.training()
    story.checkpoint(40)
    story.lose("ip-127-0-1-12")
    story.training("ip-127-0-1-11", "ip-127-0-1-13", step=41)
    story.end()
    told(story)
    assert sorted(heard(story)) == sorted(
        [
            "run.submitted", "cluster.ready", "run.started", "run.started", "run.recovered",
            "run.finished", "cluster.deleted",
        ]
    )  # fmt: skip
    first, *_ = [event for event in story.world.notices.events if event.type == "run.started"]
    assert first.run is not None
    assert (first.run.id, first.run.name, first.run.attempt) == (story.run.id, "ddp-demo", 1)
    assert first.run.labels == {"team": "vision"}
    assert first.run.cluster == story.cluster.name
    gone = story.world.notices.events[-1]
    made_for = {event.cluster.run for event in story.world.notices.events if event.cluster}
    assert made_for == {story.run.id}
    assert gone.id.startswith((story.cluster.name, story.run.id))
    assert not story.world.notices.unsent(10)


@pytest.mark.parametrize(("end", "type_"), [("failed", "run.failed"), ("cancel", "run.cancelled")])
def test_an_end_without_success_has_its_own_type(story: Story, end: str, type_: str) -> None:
    run = story.submit()
    story.ready()
    story.training()
    if end == "cancel":
        story.cancel()
        story.rest()
        story.end("cancelled")
    else:
        for _ in range(30):
            if story.run.terminal:
                break
            story.end("failed", exitCode=1, errorKind="unknown")
            if not story.run.terminal:
                story.training()
    told(story)
    (event,) = [one for one in story.world.notices.events if one.type == type_]
    assert event.run is not None
    assert event.run.id == run.id
    assert bool(event.run.problem) == (end == "failed")


def test_a_bus_that_is_away_loses_nothing(story: Story) -> None:
    story.submit()
    story.rest()
    story.world.notices.away = True
    assert [done.action for done in story.sweep()] == ["failed"]
    assert heard(story) == []
    story.world.notices.away = False
    assert story.sweep() == []
    assert heard(story) == ["run.submitted"]
    story.sweep()
    assert heard(story) == ["run.submitted"]


def test_a_record_that_cannot_be_read_is_told_by_its_id(story: Story) -> None:
    run = story.submit()
    story.rest()
    story.world.runs.broken.add(run.id)
    sweep(story.world.ports)
    (event,) = story.world.notices.events
    assert event.run is not None
    assert (event.run.id, event.run.name) == (run.id, "")


@pytest.mark.parametrize("after", [False, True])
def test_a_sweep_that_dies_at_any_call_sends_it_again_with_the_same_id(after: bool) -> None:
    deaths, call = 0, 1
    while True:
        story = Story()
        story.submit()
        story.rest()
        story.world.fuse.arm(call, after=after)
        try:
            sweep(story.world.ports)
            died = False
        except Died:
            died = True
        story.world.fuse.arm(None)
        sweep(story.world.ports)
        ids: Counter[Any] = Counter(event.id for event in story.world.notices.events)
        assert list(ids.values()) in ([1], [2])
        assert not story.world.notices.unsent(10)
        deaths, call = deaths + died, call + 1
        if not died:
            break
    assert deaths > 3
