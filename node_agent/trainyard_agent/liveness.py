"""When a node is lost: a pure judgement of independent signals, because a false alarm costs more than a second of waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: A training that stepped every `s` seconds counts as stopped after QUIET_STEPS * s without a step, within these bounds.
QUIET_STEPS = 3.0
MIN_QUIET_SECONDS, MAX_QUIET_SECONDS = 0.4, 20.0
#: Before the first step nothing says how long a step takes.
UNKNOWN_QUIET_SECONDS = 1.0
#: Refused means that the node's kernel answers and nothing listens; silence may be a network that comes back.
REFUSALS_NEEDED, TIMEOUTS_NEEDED = 2, 3


@dataclass(frozen=True)
class Signals:
    """What is known of a node whose agent is not linked. Times in seconds.

    unlinked: since its last beat. refusals, timeouts: answers of slurmd's port in a row, newest kind only.
    quiet: since training last stepped or the agent fell silent, whichever is later; None if no active job uses the node.
    step_seconds: how long a step usually takes, None before that is known. job_ended: its job left Slurm.
    """

    unlinked: float
    refusals: int
    timeouts: int
    answers: int
    quiet: float | None
    step_seconds: float | None
    job_ended: bool
    silent_after: float


def judge(signals: Signals) -> Literal["wait", "silent", "lost"]:
    """'lost' on two independent signals, 'silent' when only the agent is gone, 'wait' while it cannot be known."""
    if signals.refusals >= REFUSALS_NEEDED:
        return "lost" if _training_agrees(signals, patience=0.0) else _silent_or_wait(signals)
    if signals.timeouts >= TIMEOUTS_NEEDED and signals.unlinked >= signals.silent_after:
        return "lost" if _training_agrees(signals, patience=signals.silent_after) else _silent_or_wait(signals)
    if signals.answers:
        return _silent_or_wait(signals)
    return "wait"


def _training_agrees(signals: Signals, *, patience: float) -> bool:
    """No training goes on that would prove the node alive."""
    if signals.quiet is None or signals.job_ended:
        return True
    return signals.quiet >= max(patience, quiet_needed(signals.step_seconds))


def quiet_needed(step_seconds: float | None) -> float:
    """How long training must have stood still before that means anything."""
    if step_seconds is None:
        return UNKNOWN_QUIET_SECONDS
    return min(MAX_QUIET_SECONDS, max(MIN_QUIET_SECONDS, QUIET_STEPS * step_seconds))


def _silent_or_wait(signals: Signals) -> Literal["wait", "silent"]:
    return "silent" if signals.unlinked >= signals.silent_after else "wait"
