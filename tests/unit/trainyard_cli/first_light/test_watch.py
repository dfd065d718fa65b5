"""How long first-light waits, and what it says when that was too long."""

from __future__ import annotations

import pytest
from tests.support.first_light_world import (
    Clock,
    a_stage,
    proving,
)

from trainyard_cli.doctor.account import NotAnswered
from trainyard_cli.first_light import command, engine
from trainyard_cli.first_light.engine import FirstLight
from trainyard_cli.first_light.record import Record
from trainyard_cli.first_light.watch import StageFailed, Watch
from trainyard_cli.first_light.world import World
from trainyard_cli.problems import ApiProblem, InvalidInput, Unreachable


def test_a_stage_that_is_not_through_in_time_says_what_it_waited_for() -> None:
    clock = Clock()
    watch = Watch(30, 5, clock=clock, sleep=clock.sleep)
    with pytest.raises(StageFailed, match="not within 30 s: the nodes join"):
        watch.until("the nodes join", lambda: None)
    assert clock.now == 30


def test_an_api_that_does_not_answer_is_asked_again_and_named_when_time_is_up() -> None:
    clock, answers = Clock(), iter([Unreachable("gone"), ApiProblem(502, {"title": "bad gateway"})])

    def look() -> str:
        for error in answers:
            raise error
        return "there"

    assert Watch(30, 5, clock=clock, sleep=clock.sleep).until("it", look) == "there"

    def down() -> None:
        raise Unreachable("gone", "no route")

    with pytest.raises(StageFailed, match="the last answer was: gone: no route"):
        Watch(30, 5, clock=clock, sleep=clock.sleep).until("it", down)


@pytest.mark.parametrize(
    "error", [ApiProblem(422, {"title": "wrong"}), NotAnswered("s:O", "AccessDenied", "no")]
)
def test_what_is_refused_is_not_asked_again(error: Exception) -> None:
    clock = Clock()

    def look() -> None:
        raise error

    with pytest.raises(type(error)):
        Watch(30, 5, clock=clock, sleep=clock.sleep).until("it", look)
    assert clock.now == 0


@pytest.mark.parametrize("given", ["soon", "0", "ready=", "breakfast=5", "=5x"])
def test_a_stage_is_given_a_time_or_it_is_said_what_would_be_one(given: str) -> None:
    with pytest.raises(InvalidInput, match="STAGE=SECONDS") as refused:
        command._limits([given])
    assert given in refused.value.detail
    assert "nothing-left" in refused.value.next_step


def test_a_stage_has_its_own_time_before_that_of_all(world: World, record: Record) -> None:
    asked: list[float] = []

    def act(_world: World, watch: Watch) -> str:
        asked.append(watch.seconds)
        return "it is so"

    limits = command._limits(["30", "price=5"])
    FirstLight(world, record, [], lambda _words: None, limits=limits).run(
        [a_stage(act), a_stage(act, "price")]
    )
    assert asked == [30, 5]


def test_the_proof_has_the_time_that_it_was_given_and_is_not_shortened_with_all(
    world: World, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(engine, "tear_down", lambda *_given, **_more: "gone")
    monkeypatch.setattr(
        engine, "nothing_left", lambda _world, watch: (str(asked.append(watch.seconds)), [])
    )
    for given in (["7"], ["7", "nothing-left=5"]):
        FirstLight(world, record, [], lambda _words: None, limits=command._limits(given)).run(
            [a_stage(proving, "create")]
        )
    assert asked == [engine.PROOF_SECONDS, 5]
