"""Nodes that a run does not use, and why."""

from __future__ import annotations

from datetime import timedelta

from trainyard.domain.decisions import Draft
from trainyard.domain.records import Action, Attempt, Run
from trainyard_contracts.events import AttemptEnded, Fact, NodeLost, NodeReturned

#: A node under suspicion is spared for this long. Then it is used again, since no other has become
#: free.
SUSPECTS_SECONDS = 60


def without_exclusions(draft: Draft) -> None:
    """Forget what was planned for a job that waited: it is planned anew from what is known now."""
    left = [action for action in draft.run.actions if action.kind != "exclude"]
    if len(left) < len(draft.run.actions):
        draft.change(actions=left)


def review_exclusions(draft: Draft, attempt: Attempt) -> None:
    """Let a waiting job exclude the nodes that are bad now, and not those at its submission."""
    nodes = sorted({*draft.book.lost_nodes(), *_suspects(draft, attempt)})
    if set(nodes) == set(attempt.exclude):
        return
    news: Fact | None = draft.book.last(NodeLost, NodeReturned, AttemptEnded)
    action_id = f"exclude-{attempt.number}-{news.id if news else 'none'}-{len(nodes)}"
    draft.act(
        Action(
            id=action_id,
            kind="exclude",
            attempt=attempt.number,
            nodes=nodes,
            reason=_reason(attempt, nodes),
        )
    )


def _suspects(draft: Draft, attempt: Attempt) -> set[str]:
    """Nodes that the attempt avoids although they are not lost.

    None are left once it has waited long enough, or the node came back.
    """
    assert attempt.submitted_at is not None
    back = {
        fact.about.node for fact in draft.book.of(NodeReturned) if fact.at > attempt.submitted_at
    }
    suspects = set(attempt.exclude) - set(attempt.down) - back
    until = attempt.submitted_at + timedelta(seconds=SUSPECTS_SECONDS)
    if not suspects or draft.now >= until:
        return set()
    draft.by(until)
    return suspects


def _reason(attempt: Attempt, nodes: list[str]) -> str:
    freed, barred = (
        sorted(set(attempt.exclude) - set(nodes)),
        sorted(set(nodes) - set(attempt.exclude)),
    )
    words = [
        f"may use {', '.join(freed)} again" if freed else "",
        f"must not use {', '.join(barred)}" if barred else "",
    ]
    return " and ".join(word for word in words if word)


def excluded(run: Run, action: Action) -> Run:
    """The run after an action was done: the attempt excludes the nodes that Slurm now excludes."""
    attempt = run.attempt
    if action.kind != "exclude" or attempt is None or attempt.number != action.attempt:
        return run
    down = sorted({*attempt.down, *(set(action.nodes) - set(attempt.exclude))})
    changed = attempt.changed(exclude=list(action.nodes), down=down)
    return run.changed(attempts=[*run.attempts[:-1], changed])
