"""Nodes that are lost while the run does not use them."""

from __future__ import annotations

from trainyard.domain import loss_causes, nodes
from trainyard.domain.decisions import Draft
from trainyard.domain.records import Attempt


def replace_bystanders(draft: Draft, attempt: Attempt) -> None:
    """A node that the run does not use is lost: training goes on, and a new node is asked for."""
    # While the attempt's nodes are unknown, nobody can say which node it does not use. A node that
    # the attempt was planned without was asked for at that time.
    if not attempt.nodes and nodes.queued(draft) is None:
        return
    spares, without = nodes.usable_nodes(draft) - draft.run.spec.job.nodes, set(attempt.exclude)
    left = f"{spares} spare{'' if spares == 1 else 's'} left" if spares > 0 else "no spare is left"
    # Thousands may be lost at once. One change of the run handles and asks for all of them.
    handled, actions = (
        dict.fromkeys(draft.run.handled_facts),
        {action.id: action for action in draft.run.actions},
    )
    for node, fact in draft.book.lost_nodes().items():
        asked = node in without and any(key.endswith(f"-{node}") for key in handled)
        if asked or f"{fact.id}-{node}" in handled:
            continue
        handled[f"{fact.id}-{node}"] = None
        action = loss_causes.replacement(fact, node, loss_causes.instance_of(fact, node))
        actions.setdefault(action.id, action)
        if node not in without:
            message = (
                f"{loss_causes.lost_sentence(fact, node)} The run does not use it, so training "
                f"goes on; {left}."
            )
            draft.note(f"bystander-{fact.id}-{node}", "SpareLost", message)
    if len(handled) > len(draft.run.handled_facts):
        draft.change(handled_facts=list(handled), actions=list(actions.values()))
