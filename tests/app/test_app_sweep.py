"""A sweep ends in time, and what is slow keeps nothing else waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.memory import World
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.sweep import sweep as swept_by
from trainyard.app.sweep.duties import in_turn
from trainyard.app.sweep.sweep import DUTY_SECONDS, PUT_OFF, SWEEP_SECONDS, sweep
from trainyard.app.sweep.swept import Swept
from trainyard.domain import errors
from trainyard.ports import Ports


class Timer:
    """Seconds that pass only when somebody says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_controller_that_does_not_answer_keeps_the_rest_of_the_sweep_waiting_for_nothing() -> (
    None
):
    story, timer = Story(), Timer()
    make_cluster(story)
    story.submit(run_spec(cluster={"name": "shared"}, export={"enabled": False}))
    story.rest()
    story.training()

    def away(cluster, argv):  # type: ignore[no-untyped-def]
        timer.now += SWEEP_SECONDS
        raise errors.NodeUnreachable("TargetNotConnected")

    story.world.commands.answer = away
    story.cancel()
    story.rest()
    story.pass_time(121)
    story.sweep()  # the run's last wait timed out and is still stored
    story.world.clock.tick(61)
    story.send("ClusterHeartbeat", nodes=[], runs=[{"runId": story.run_id, "attempt": 1}])
    story.world.dead_letters.letters["one"] = "no event"
    done = sweep(story.world.ports, timer)
    assert [one.action for one in done][:2] == ["dead letter", "failed"]
    assert "stray_job" in done[1].subject
    assert {one.action for one in done[2:]} <= {PUT_OFF}


def test_each_has_its_turn_though_a_sweep_has_time_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world, timer, reached = World(), Timer(), []
    items = [f"cluster-{number}" for number in range(8)]

    def asked(ports: Ports) -> list[str]:
        return in_turn(ports, items)

    def slow(ports: Ports, item: str) -> Iterator[Swept]:
        timer.now += DUTY_SECONDS
        reached.append(item)
        yield Swept("asked", item, "it took its time")

    def other(ports: Ports, item: str) -> Iterator[Swept]:
        yield Swept("done", item, "at once")

    monkeypatch.setattr(swept_by, "QUICK", ((asked, slow), (lambda ports: ["x"], other)))
    monkeypatch.setattr(swept_by, "SLOW", ())
    for _ in range(len(items)):
        done = sweep(world.ports, timer)
        assert [one.action for one in done] == ["asked", PUT_OFF, "done"]
        assert done[1].reason == "7 of 8 are left to the next sweep"
        world.clock.tick(60)
    assert sorted(reached) == items


def test_nothing_is_begun_after_the_time_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    timer, begun = Timer(), []

    def listed(ports: Ports) -> list[str]:
        begun.append(timer.now)
        timer.now += SWEEP_SECONDS / 3
        return []

    def nothing(ports: Ports, item: str) -> Iterator[Swept]:
        yield from ()

    monkeypatch.setattr(swept_by, "QUICK", ((listed, nothing),) * 5)
    monkeypatch.setattr(swept_by, "SLOW", ())
    done = sweep(World().ports, timer)
    assert len(begun) == 3
    assert [(one.action, one.subject) for one in done] == [(PUT_OFF, "nothing")] * 2
