"""The signals by which a silent node is judged."""

from __future__ import annotations

from collections.abc import Callable

from trainyard_agent.nodes.activity import Activity
from trainyard_agent.nodes.liveness import Signals
from trainyard_agent.nodes.node_table import Node
from trainyard_agent.nodes.questions import Questions
from trainyard_contracts.node_evidence import NodeEvidence


def signals_of(
    node: Node,
    questions: Questions,
    activity: Activity | None,
    *,
    alone: float | None,
    missed: Callable[[float], float],
    silent_after: float,
    now: float,
) -> Signals:
    """What speaks for and against a node that is not heard; `alone` as in Signals.

    `missed` says how much of the time since then this process slept through.
    """
    quiet = None
    if activity is not None:
        # Steps that nobody has read may have been made.
        read = now if activity.read_at is None else min(now, activity.read_at)
        since = max(node.silent_since, activity.stepped_at or 0.0)
        quiet = max(0.0, read - since - missed(since))
    asked = questions.open[0] if questions.open else now
    return Signals(
        unheard=now - node.silent_since - missed(node.silent_since),
        closed=not node.connected,
        refusals=questions.refusals,
        answers=questions.answers,
        questions=len(questions.open),
        unanswered=now - asked - missed(asked),
        answered=questions.heard > 0,
        quiet=quiet,
        step_seconds=activity.step_seconds if activity else None,
        pause=activity.pause if activity else 0.0,
        job_ended=bool(activity and activity.ended),
        alone=alone,
        held=node.held,
        late=node.late.usual(),
        silent_after=silent_after,
    )


def why_not_lost(
    activity: Activity | None, evidence: NodeEvidence, *, held: bool, now: float
) -> str:
    """Why a node counts only as silent, and not as lost; '' where slurmd's answer shows it."""
    if held:
        return "no other node is heard either, so it may be this controller's own link"
    if evidence.scheduler == "up" or activity is None or activity.stepped_at is None:
        return ""
    return f"training stepped {now - activity.stepped_at:.1f} s ago"
