"""A node is lost never on one signal or while training advances, but within seconds on two."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.nodes.lateness import MOST_LATE_SECONDS
from trainyard_agent.nodes.liveness import (
    HOLD_SECONDS,
    MAX_QUIET_SECONDS,
    Signals,
    judge,
    quiet_needed,
)
from trainyard_agent.nodes.questions import EAGER_SECONDS

GONE = Signals(
    unheard=0.5, closed=True, refusals=2, answers=0, questions=0, unanswered=0.0, answered=False,
    quiet=None, step_seconds=None, pause=0.0, job_ended=False, alone=0.2, held=False, late=0.0,
    silent_after=3.5,
)  # fmt: skip
STILL = replace(GONE, closed=False, refusals=0, unheard=3.6, questions=12, unanswered=2.0)
seconds = st.floats(0, 1000, allow_nan=False)
counts = st.integers(0, 50)
signals = st.builds(
    Signals,
    unheard=seconds,
    closed=st.booleans(),
    refusals=counts,
    answers=counts,
    questions=counts,
    unanswered=seconds,
    answered=st.booleans(),
    quiet=st.none() | seconds,
    step_seconds=st.none() | seconds,
    pause=seconds,
    job_ended=st.booleans(),
    alone=st.none() | seconds,
    held=st.booleans(),
    late=st.floats(0, MOST_LATE_SECONDS),
    silent_after=st.floats(0.5, 30),
)


def test_an_idle_node_that_refuses_is_lost_at_once() -> None:
    assert judge(GONE) == "lost"


def test_a_beat_that_is_only_late_is_no_silence_though_slurmd_is_down() -> None:
    restarting = replace(GONE, closed=False, unheard=2.0)
    assert judge(restarting) == "wait"
    assert judge(replace(restarting, unheard=3.5)) == "lost"


def test_a_node_of_a_job_is_lost_once_training_stands_still() -> None:
    training = replace(GONE, quiet=0.1, step_seconds=0.05)
    assert judge(training) == "wait"
    assert judge(replace(training, quiet=0.41)) == "lost"
    assert judge(replace(training, job_ended=True)) == "lost"


def test_slow_steps_need_more_patience_but_not_for_ever() -> None:
    slow = replace(GONE, quiet=3.0, step_seconds=2.0)
    assert judge(slow) == "wait"
    assert judge(replace(slow, quiet=6.1)) == "lost"
    assert judge(replace(slow, step_seconds=1000.0, quiet=MAX_QUIET_SECONDS)) == "lost"


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "lost"),
        ({"unheard": 2.2}, "lost"),
        ({"unheard": 2.0}, "wait"),
        ({"unheard": 2.2, "quiet": 2.0, "step_seconds": 0.1}, "wait"),
        ({"unheard": 2.2, "alone": 1.8}, "held"),
        ({"questions": 7}, "wait"),
        ({"unanswered": 1.6}, "wait"),
        ({"unanswered": 2.0, "answered": True}, "wait"),
        ({"unanswered": 3.5, "answered": True}, "lost"),
        ({"answers": 1, "questions": 0, "unanswered": 0.0}, "silent"),
        ({"quiet": 2.2, "step_seconds": 0.1}, "lost"),
        ({"quiet": 2.0, "step_seconds": 0.1}, "silent"),
        ({"quiet": 2.2, "step_seconds": 1.0}, "silent"),
        ({"quiet": 2.2, "step_seconds": 0.1, "pause": 1.4}, "lost"),
        ({"quiet": 2.2, "step_seconds": 0.1, "pause": 1.6}, "silent"),
        ({"quiet": 20.0, "step_seconds": 0.1, "pause": 60.0}, "lost"),
        ({"unheard": 2.2, "late": 0.2}, "wait"),
        ({"unheard": 2.4, "late": 0.2}, "lost"),
        ({"unanswered": 1.8, "late": 0.2}, "wait"),
        ({"quiet": 2.2, "late": 0.2}, "silent"),
        ({"late": 3.0, "refusals": 2}, "lost"),
        ({"quiet": 0.0, "job_ended": True}, "lost"),
        ({"alone": None}, "lost"),
        ({"alone": 1.7}, "lost"),
        ({"alone": 1.8}, "held"),
        ({"alone": 2.2, "quiet": 0.5}, "silent"),
        ({"alone": 2.2, "unheard": HOLD_SECONDS}, "lost"),
        ({"alone": 2.2, "refusals": 2}, "lost"),
        ({"alone": 0.1, "held": True, "unheard": 20.0}, "again"),
        ({"alone": 9.0, "held": True, "unheard": HOLD_SECONDS}, "lost"),
    ],
)
def test_a_node_that_says_nothing_at_all_is_judged_so(
    changes: dict[str, float], verdict: str
) -> None:
    assert judge(replace(STILL, **changes)) == verdict  # type: ignore[arg-type]


def test_a_dead_agent_on_a_living_node_is_only_silent() -> None:
    alive = replace(GONE, refusals=0, answers=3)
    assert judge(alive) == "wait"
    assert judge(replace(alive, unheard=10.0)) == "silent"


@given(signals)
def test_no_node_is_lost_while_its_slurmd_answers(found: Signals) -> None:
    assert judge(replace(found, refusals=0, questions=0, unanswered=0.0)) not in ("lost", "held")


@given(signals)
def test_no_node_is_lost_while_training_advances(found: Signals) -> None:
    assert judge(replace(found, quiet=0.0, job_ended=False)) not in ("lost", "held")


@given(signals)
def test_no_silent_node_is_lost_while_no_other_is_heard_either_until_that_lasts_too_long(
    found: Signals,
) -> None:
    cut_off = replace(
        found, refusals=0, alone=found.silent_after, unheard=min(found.unheard, HOLD_SECONDS - 0.1)
    )
    assert judge(cut_off) != "lost"


@given(signals)
def test_waiting_longer_never_turns_lost_into_wait(found: Signals) -> None:
    later = replace(
        found,
        unheard=found.unheard + 60,
        unanswered=found.unanswered + 60 if found.questions else 0.0,
        quiet=None if found.quiet is None else found.quiet + 60,
    )
    if judge(found) == "lost" and (found.questions or found.refusals):
        assert judge(later) == "lost"


@given(st.none() | seconds)
def test_the_patience_is_bounded(step_seconds: float | None) -> None:
    assert 0 < quiet_needed(step_seconds) <= MAX_QUIET_SECONDS


# -- a bad network -------------------------------------------------------------------------------
LOSS, DELAY, TICK = 0.05, 0.3, 0.05


def arrival(dice: random.Random, sent: float) -> float:
    """When a TCP segment arrives that is sent again, ever later, while it or its answer is lost."""
    timeout = 2 * DELAY + 0.6
    while dice.random() < LOSS:
        sent += timeout
        timeout *= 2
    return sent + DELAY


def beats(dice: random.Random, seconds: float) -> list[float]:
    """When each second's beat is read: a lost one holds up those behind it."""
    read, found = 0.0, []
    for second in range(int(seconds)):
        read = max(read, arrival(dice, float(second)))
        found.append(read)
    return found


def answered(dice: random.Random, asked: float) -> float:
    """Opening the connection, its acknowledgement, our end of it, slurmd's end of it."""
    for _ in range(4):
        asked = arrival(dice, asked)
    return asked


def false_losses(dice: random.Random, seconds: float, asked_after: float) -> int:
    """How often a living node would be lost when it is asked after so long a silence."""
    heard, found = 0.0, 0
    for read in beats(dice, seconds):
        late, open_questions = heard + asked_after, []
        while late < read:
            now, late = late, late + TICK
            if not open_questions or now - open_questions[-1][0] >= EAGER_SECONDS:
                open_questions.append((now, answered(dice, now)))
            newest = max((asked for asked, at in open_questions if at <= now), default=0.0)
            waiting = [asked for asked, _ in open_questions if asked > newest]
            since = now - waiting[0] if waiting else 0.0
            still = replace(STILL, unheard=now - heard, questions=len(waiting), unanswered=since)
            if judge(replace(still, answered=newest > 0)) == "lost":
                found += 1
                break
        heard = max(heard, read)
    return found


@pytest.mark.parametrize(
    ("asked_after", "why"), [(0.7, "training stands still"), (1.5, "a beat is late")]
)
def test_ninety_seconds_of_five_per_cent_loss_and_300_ms_of_delay_lose_no_node(
    asked_after: float, why: str
) -> None:
    dice = random.Random(20261122)
    assert sum(false_losses(dice, 90, asked_after) for _ in range(60)) == 0, why


def test_the_bad_network_of_these_tests_is_one() -> None:
    """Without questions to slurmd it would lose nodes: silences of more than 3.5 s happen."""
    dice = random.Random(20261122)
    gaps = [
        after - before for _ in range(300) for before, after in itertools.pairwise(beats(dice, 90))
    ]
    assert max(gaps) > 3.5
    assert sum(gap > 1.5 for gap in gaps) > 100
