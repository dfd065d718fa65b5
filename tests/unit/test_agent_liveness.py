"""When a node is lost: never on one signal, never while training advances, at once on two."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.liveness import MAX_QUIET_SECONDS, Signals, judge, quiet_needed

GONE = Signals(
    unlinked=0.5, refusals=2, timeouts=0, answers=0, quiet=None, step_seconds=None, job_ended=False, silent_after=3.0
)  # fmt: skip
seconds = st.floats(0, 1000, allow_nan=False)
counts = st.integers(0, 50)
signals = st.builds(
    Signals,
    unlinked=seconds,
    refusals=counts,
    timeouts=counts,
    answers=counts,
    quiet=st.none() | seconds,
    step_seconds=st.none() | seconds,
    job_ended=st.booleans(),
    silent_after=st.floats(0.5, 30),
)


def test_an_idle_node_that_refuses_is_lost_at_once() -> None:
    assert judge(GONE) == "lost"


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


def test_silence_of_the_network_needs_longer_than_a_refusal() -> None:
    unreachable = replace(GONE, refusals=0, timeouts=5, unlinked=2.0)
    assert judge(unreachable) == "wait"
    assert judge(replace(unreachable, unlinked=3.1)) == "lost"
    assert judge(replace(unreachable, unlinked=3.1, quiet=1.0, step_seconds=0.01)) == "silent"


def test_a_dead_agent_on_a_living_node_is_only_silent() -> None:
    alive = replace(GONE, refusals=0, answers=3)
    assert judge(alive) == "wait"
    assert judge(replace(alive, unlinked=10.0)) == "silent"


@given(signals)
def test_no_node_is_lost_while_its_slurmd_answers(found: Signals) -> None:
    assert judge(replace(found, refusals=0, timeouts=0)) != "lost"


@given(signals)
def test_no_node_is_lost_while_training_advances(found: Signals) -> None:
    assert judge(replace(found, quiet=0.0, job_ended=False)) != "lost"


@given(signals)
def test_waiting_longer_never_turns_lost_into_wait(found: Signals) -> None:
    later = replace(found, unlinked=found.unlinked + 60, quiet=None if found.quiet is None else found.quiet + 60)
    if judge(found) == "lost":
        assert judge(later) == "lost"


@given(st.none() | seconds)
def test_the_patience_is_bounded(step_seconds: float | None) -> None:
    assert 0 < quiet_needed(step_seconds) <= MAX_QUIET_SECONDS
