"""Each moment of a run's nodes has one cause, so that the ledger's sum is the bill."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.records import NOW, run
from tests.support.recovery import fact

from trainyard.domain import costs
from trainyard.domain.capacity_facts import PriceInForce, TryGone
from trainyard.domain.cluster_facts import ClusterDeleted
from trainyard.domain.ledger import ledger
from trainyard.domain.quiet_times import Progress
from trainyard.domain.records import Attempt, Export, Run
from trainyard_contracts.events import Fact


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def priced(
    seconds: float, hourly: float | None = 36.0, generation: int = 1, *, nodes: int = 4
) -> PriceInForce:
    return PriceInForce(
        id=f"price-{generation}-{seconds}",
        at=at(seconds),
        cluster_name="demo-1",
        generation=generation,
        hourly_usd=hourly,
        source="list" if hourly is not None else "",
        nodes=nodes,
        workers=3,
    )


def gone(seconds: float, generation: int = 1) -> ClusterDeleted:
    return ClusterDeleted(
        id=f"gone-{generation}", at=at(seconds), cluster_name="demo-1", generation=generation
    )


def trained(number: int, *times: float | None, resumed: int | None = None) -> Attempt:
    submitted, started, stepped, ended = [None if t is None else at(t) for t in times]
    return Attempt(
        number=number,
        job_id=str(number),
        submitted_at=submitted,
        started_at=started,
        first_step_at=stepped,
        ended_at=ended,
        resumed_from=resumed,
        outcome=None if ended is None else "failed",
    )


def ended(number: int, seconds: int, step: int | None) -> Fact:
    return fact(
        50 + number,
        "AttemptEnded",
        number,
        seconds,
        jobId=str(number),
        outcome="failed",
        lastStep=step,
    )


def lines(run_: Run, facts: list[Fact], until: float, *reports: Progress) -> dict[str, float]:
    spells = costs.spells(run_, facts, at(until))
    return {line.cause: line.seconds for line in ledger(run_, facts, spells, reports)}


def test_a_run_with_a_lost_node_is_divided_to_the_second() -> None:
    attempts = [trained(1, 110, 115, 120, 220), trained(2, 230, 232, 240, 300, resumed=60)]
    attempts[1] = attempts[1].changed(outcome="succeeded")
    facts = [
        priced(0),
        fact(1, "ClusterReady", None, 100, nodes=[]),
        ended(1, 220, 100),
        fact(9, "ExportFinished", None, 320, runId="run-1", exportId="e", ok=True),
        gone(350),
    ]
    over = run(
        attempts=attempts,
        outcome="succeeded",
        stopping_since=at(301),
        finished_at=at(351),
        export=Export(id="e", final=True, requested_at=at(302)),
    )
    assert lines(over, facts, 1000) == {
        "useful": 60 + 60,
        "creation": 100,
        "start": 10 + 10,
        "restart": 20,
        "recomputation": 40,
        "saving": 20,
        "teardown": 30,
    }


def test_a_try_that_was_never_ready_is_creation_that_failed() -> None:
    facts = [priced(0), TryGone(id="t", at=at(60), generation=1), priced(70, 72.0, 2)]
    assert lines(run(), facts, 100) == {"creation-failed": 60, "creation": 30}


def test_a_wait_for_a_node_is_told_from_a_restart() -> None:
    second = trained(2, 260, 265, 270, None).changed(waited_since=at(205))
    attempts = [trained(1, 10, 10, 20, 200), second]
    found = lines(run(attempts=attempts), [priced(0)], 300)
    assert found == {"useful": 180 + 30, "creation": 10, "start": 10, "restart": 15, "waiting": 55}


def test_a_hang_that_was_noticed_late_is_detection_and_one_that_passed_is_a_stall() -> None:
    beats = [Progress(at(60 * n), 1, n) for n in range(1, 6)]
    hung = [*beats, *(Progress(at(60 * n), 1, 5) for n in range(6, 20))]
    attempts = [trained(1, 0, 0, 0, 1200)]
    found = lines(run(attempts=attempts), [priced(0)], 1200, *hung)
    assert found == {"useful": 360, "detection": 840}
    later = [*hung, Progress(at(1140), 1, 6)]
    found = lines(run(attempts=[trained(1, 0, 0, 0, None)]), [priced(0)], 1200, *later)
    assert found == {"useful": 420, "stall": 780}


def test_a_slow_program_does_not_stall() -> None:
    beats = [Progress(at(60 * n), 1, n // 10) for n in range(1, 60)]
    found = lines(run(attempts=[trained(1, 0, 0, 0, None)]), [priced(0)], 3600, *beats)
    assert found == {"useful": 3600}


def test_a_program_that_tells_no_step_is_useful_if_it_ended_well() -> None:
    well = trained(1, 0, 5, None, 100).changed(outcome="succeeded")
    assert lines(run(attempts=[well]), [priced(0)], 100) == {"start": 5, "useful": 95}
    ill = trained(1, 0, 5, None, 100)
    assert lines(run(attempts=[ill]), [priced(0)], 100) == {"start": 5, "recomputation": 95}


def test_a_program_that_tells_no_step_is_useful_so_far_once_it_has_lived_for_minutes() -> None:
    going = run(attempts=[trained(1, 0, 5, None, None)])
    assert lines(going, [priced(0)], 304) == {"start": 304}
    assert lines(going, [priced(0)], 305) == {"start": 5, "useful": 300}
    told = run(attempts=[trained(1, 0, 5, 9, 20), trained(2, 20, 25, None, None)])
    assert lines(told, [priced(0)], 500)["restart"] == 480, "a step is waited for"


def test_of_a_program_that_tells_steps_an_attempt_that_died_before_its_first_trained_none() -> None:
    attempts = [trained(1, 0, 5, None, 100), trained(2, 110, 115, 120, 200)]
    found = lines(run(attempts=attempts), [priced(0)], 200)
    assert found == {"start": 100, "restart": 20, "useful": 80}


def test_a_price_that_is_not_known_is_no_zero() -> None:
    facts = [priced(0), priced(50, None)]
    spells = costs.spells(run(), facts, at(100))
    assert [line.usd for line in ledger(run(), facts, spells)] == [None]
    assert costs.usd_of(spells) is None


@st.composite
def pasts(draw: st.DrawFn) -> tuple[Run, list[Fact], list[Progress]]:
    """Any attempts, prices and ends, in any order of time, whether or not they can be."""
    moment = st.integers(0, 2000)
    maybe = st.none() | moment
    attempts = [
        trained(
            number,
            draw(maybe),
            draw(maybe),
            draw(maybe),
            draw(maybe),
            resumed=draw(st.none() | st.integers(0, 50)),
        ).changed(waited_since=None if (t := draw(maybe)) is None else at(t))
        for number in range(1, 1 + draw(st.integers(0, 4)))
    ]
    facts: list[Fact] = [
        priced(draw(moment), draw(st.none() | st.floats(0.01, 1000)), draw(st.integers(1, 2)))
        for _ in range(draw(st.integers(0, 4)))
    ]
    facts += [gone(draw(moment), generation) for generation in (1, 2) if draw(st.booleans())]
    for one in attempts:
        if draw(st.booleans()):
            facts.append(ended(one.number, draw(moment), draw(st.none() | st.integers(0, 60))))
    if draw(st.booleans()):
        facts.append(fact(1, "ClusterReady", None, draw(moment), nodes=[]))
    outcome = draw(st.sampled_from([None, "succeeded", "failed"]))
    over, stopping = draw(maybe), draw(maybe)
    made = run(
        attempts=attempts,
        outcome=outcome,
        owns_cluster=draw(st.booleans()),
        stopping_since=None if stopping is None else at(stopping),
        finished_at=None if over is None else at(over),
    )
    reports = [
        Progress(at(draw(moment)), draw(st.integers(1, 4)), draw(st.integers(0, 60)))
        for _ in range(draw(st.integers(0, 12)))
    ]
    return made, facts, reports


@settings(max_examples=100, deadline=None)
@given(pasts(), st.integers(0, 2500))
def test_the_ledger_s_sum_is_the_bill(
    past: tuple[Run, list[Fact], list[Progress]], until: int
) -> None:
    made, facts, reports = past
    spells = costs.spells(made, facts, at(until))
    found = ledger(made, facts, spells, reports)
    assert sum(line.seconds for line in found) == pytest.approx(
        sum(spell.seconds for spell in spells)
    )
    assert sum(line.node_seconds for line in found) == pytest.approx(
        sum(spell.node_seconds for spell in spells)
    )
    bill = costs.usd_of(spells)
    if bill is not None:
        assert sum(line.usd or 0.0 for line in found) == pytest.approx(bill)
    assert all(line.seconds > 0 for line in found)


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        ((0, 100), (50, 150), 150),  # the first one's end came late
        ((0, None), (50, 150), 1000),  # or never
        ((10, 100), (5, 20), 95),  # a clock was set back
        ((0, 100), (20, 30), 100),
        ((0, 100), (None, 150), 100),  # the second never started
    ],
)
def test_attempts_that_overlap_have_the_nodes_once(
    first: tuple[float, float], second: tuple[float, float], seconds: float
) -> None:
    attempts = [trained(n, b, b, b, e) for n, (b, e) in enumerate((first, second), start=1)]
    shared = run(attempts=attempts, owns_cluster=False)
    spells = costs.spells(shared, [priced(0)], at(1000))
    assert sum(one.seconds for one in spells) == seconds
    found = ledger(shared, [priced(0)], spells)
    assert sum(line.seconds for line in found) == seconds
    assert costs.usd_of(spells) == pytest.approx(36.0 * seconds / 3600 * 2 / 3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.none() | st.integers(0, 200)), max_size=5))
def test_a_run_pays_for_the_seconds_in_which_any_of_its_attempts_had_nodes(
    told: list[tuple[int, int | None]],
) -> None:
    """However they overlap; the cluster is there from 50 to 400."""
    times = [(began, None if length is None else began + length) for began, length in told]
    attempts = [trained(n, b, b, None, e) for n, (b, e) in enumerate(times, start=1)]
    shared = run(attempts=attempts, owns_cluster=False)
    found = costs.spells(shared, [priced(50), gone(400)], at(1000))
    had = {one for began, end in times for one in range(began, 400 if end is None else end)}
    assert sum(one.seconds for one in found) == len(had & set(range(50, 400)))


@st.composite
def lives(draw: st.DrawFn) -> tuple[Run, list[Fact], float]:
    """A run that could be, on a cluster of its own or a shared one, and what it truly cost.

    Clusters are asked for and deleted one after the other, at prices that may change; attempts
    begin and end within them. Facts of it come in any order, some of them twice.
    """
    owns, facts, attempts, moment, usd = draw(st.booleans()), [], [], 0, 0.0
    pause = st.integers(1, 400)
    for generation in range(1, 1 + draw(st.integers(1, 3))):
        moment += draw(pause)
        hourly = draw(st.floats(0.01, 1000))
        facts.append(priced(moment, hourly, generation))
        for _ in range(draw(st.integers(0, 3))):
            began = moment + draw(pause)
            ended_ = began + draw(pause)
            attempts.append(trained(len(attempts) + 1, began, began, None, ended_))
            usd += hourly * (ended_ - moment if owns else (ended_ - began) * 2 / 3)
            moment = ended_
            if draw(st.booleans()):  # the cluster is changed between two jobs
                hourly = draw(st.floats(0.01, 1000))
                facts.append(priced(moment, hourly, generation))
        over = draw(pause)
        usd += hourly * over if owns else 0
        moment += over
        facts.append(gone(moment, generation))
    told = draw(st.permutations([*facts, *draw(st.lists(st.sampled_from(facts)))]))
    return run(attempts=attempts, owns_cluster=owns), told, usd / costs.HOUR


@settings(max_examples=150, deadline=None)
@given(lives())
def test_the_bill_is_what_was_there_times_its_price_however_its_facts_come(
    life: tuple[Run, list[Fact], float],
) -> None:
    made, facts, usd = life
    spells = costs.spells(made, facts, at(10_000))
    assert costs.usd_of(spells) == pytest.approx(usd, rel=0.01)
    lines = ledger(made, facts, spells)
    assert sum(line.usd or 0.0 for line in lines) == pytest.approx(usd, rel=0.01)


@settings(max_examples=60, deadline=None)
@given(pasts(), st.integers(0, 2000), st.integers(0, 500))
def test_a_cost_never_gets_smaller_and_a_fact_twice_changes_nothing(
    past: tuple[Run, list[Fact], list[Progress]], until: int, more: int
) -> None:
    made, facts, _ = past
    before = costs.usd_of(costs.spells(made, facts, at(until)))
    after = costs.usd_of(costs.spells(made, facts, at(until + more)))
    if before is not None and after is not None:
        assert after >= before - 1e-9
    assert costs.spells(made, [*facts, *facts], at(until)) == costs.spells(made, facts, at(until))
