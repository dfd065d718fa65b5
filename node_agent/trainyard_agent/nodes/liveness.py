"""When a node is lost: a pure judgement of independent signals.

A false alarm costs more than a second of waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: A training counts as stopped when it makes no step for so many times as long as a step usually
#: takes, within MIN_QUIET_SECONDS and MAX_QUIET_SECONDS.
QUIET_STEPS = 3.0
#: However short its steps are, a training counts as stopped after this at the earliest.
MIN_QUIET_SECONDS = 0.4
#: However long its steps are, a training counts as stopped after this at the latest.
MAX_QUIET_SECONDS = 20.0
#: On a bad network a training pauses ever again. It has stopped when it makes no step for so many
#: times as long as such a pause.
PAUSES = 1.5
#: Before its first step a training counts as stopped after this: nothing says how long a step
#: takes.
UNKNOWN_QUIET_SECONDS = 1.0
#: A slurmd whose port refuses so often is gone: the node's kernel answers, and nothing listens.
REFUSALS_NEEDED = 2
#: So many questions to slurmd without an answer say that it is gone; fewer may be a slow or lossy
#: network. With 300 ms each way an answer takes 1.2 s, and one in five is late because a packet is
#: lost; that all are late is chance no more.
QUESTIONS_NEEDED = 8
#: The first of the questions that slurmd left without an answer must be so old.
UNANSWERED_SECONDS = 1.7
# Shares of the silence after which an agent alone counts as silent. A node of which nothing at all
# is heard needs less: ...
DEAD_SHARE = 0.6
# ... for so long training must have stood still, too, ...
QUIET_SHARE = 0.6
# ... and if for so long no other node was heard, it may be our own link that is down. Then we
# wait, but not for ever.
ALONE_SHARE = 0.5
#: A node is held for so long where no other node was heard either: it may be the controller's own
#: link that is down.
HOLD_SECONDS = 30.0

Verdict = Literal["wait", "silent", "held", "again", "lost"]


@dataclass(frozen=True)
class Signals:
    """What is known of a node whose agent is not heard. Times in seconds.

    unheard: since its last beat. closed: its link is closed, as when the agent or its node's power
    ends. refusals, answers: of slurmd's port in a row. questions: to slurmd, without an answer
    since; unanswered: since the first of them. answered: slurmd answered any question since the
    last beat. quiet: since training last stepped or the agent fell silent, whichever is later; None
    if no active job uses the node. step_seconds: how long a step usually takes, None before that is
    known. pause: how long training stood still now and then of late. job_ended: its job left Slurm.
    alone: since any other node was heard, None if there is no other. held: it was judged so until
    now. late: how late its beats and answers were of late. silent_after: when an agent counts as
    silent. What the controller's agent itself slept through is none of these times but `alone`.
    """

    unheard: float
    closed: bool
    refusals: int
    answers: int
    questions: int
    unanswered: float
    answered: bool
    quiet: float | None
    step_seconds: float | None
    pause: float
    job_ended: bool
    alone: float | None
    held: bool
    late: float
    silent_after: float


def judge(signals: Signals) -> Verdict:
    """'lost' on two independent signals, 'silent' when only the agent is gone.

    'wait': it cannot be known yet. 'held': it seems lost, but so does every other node, and then
    the trouble may be on our own side. 'again': another node is heard by now, so our side is well,
    and this node's silence counts from here.
    """
    if signals.refusals >= REFUSALS_NEEDED and (
        signals.closed or signals.unheard >= signals.silent_after
    ):
        return "lost" if _training_agrees(signals, patience=0.0) else _silent_or_wait(signals)
    if _slurmd_silent(signals) and signals.unheard >= _dead_after(signals):
        if not _training_agrees(signals, patience=_quiet_after(signals)):
            return _silent_or_wait(signals)
        if _nobody_heard(signals):
            return "held"
        return "again" if signals.held and signals.unheard < HOLD_SECONDS else "lost"
    return _silent_or_wait(signals) if signals.answers else "wait"


def _slurmd_silent(signals: Signals) -> bool:
    """If slurmd answered after the agent fell silent, the network is bad rather than the node dead.

    It gets as long as an agent.
    """
    needed = signals.silent_after if signals.answered else UNANSWERED_SECONDS
    return signals.questions >= QUESTIONS_NEEDED and signals.unanswered >= needed + signals.late


def _dead_after(signals: Signals) -> float:
    return DEAD_SHARE * signals.silent_after + signals.late


def _quiet_after(signals: Signals) -> float:
    """Training's own words cross the same bad network, so they wait as its beats do."""
    usual = QUIET_SHARE * signals.silent_after + signals.late
    return max(usual, min(MAX_QUIET_SECONDS, PAUSES * signals.pause))


def _nobody_heard(signals: Signals) -> bool:
    if signals.alone is None or signals.unheard >= HOLD_SECONDS:
        return False
    return signals.alone >= ALONE_SHARE * signals.silent_after


def _training_agrees(signals: Signals, *, patience: float) -> bool:
    """Whether no training goes on that would prove that the node is alive."""
    if signals.quiet is None or signals.job_ended:
        return True
    return signals.quiet >= max(patience, quiet_needed(signals.step_seconds))


def quiet_needed(step_seconds: float | None) -> float:
    """How long training must have stood still before that means anything."""
    if step_seconds is None:
        return UNKNOWN_QUIET_SECONDS
    return min(MAX_QUIET_SECONDS, max(MIN_QUIET_SECONDS, QUIET_STEPS * step_seconds))


def _silent_or_wait(signals: Signals) -> Verdict:
    return "silent" if signals.unheard >= signals.silent_after else "wait"
