"""Replacements that wait until nothing hinders them."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.domain.cluster_facts import NodeHealth
from trainyard.domain.decisions import Draft
from trainyard.domain.records import Action
from trainyard_contracts.events import Fact, NodeReturned


def review_replacements(draft: Draft) -> None:
    """Forget replacements of nodes that are back.

    Hold back those of nodes that the backend may be repairing.
    """
    lost = draft.book.lost_nodes()
    needed = [
        action for action in draft.run.actions if action.kind != "replace" or action.node in lost
    ]
    if len(needed) < len(draft.run.actions):
        draft.change(actions=needed)
    for action in needed:
        until = _until(draft, action, lost[action.node]) if action.kind == "replace" else None
        if until is not None and draft.now < until:
            _hold(draft, action, until)


def _until(draft: Draft, action: Action, lost: Fact) -> datetime | None:
    repair = draft.cluster.spec.node_repair if draft.cluster is not None else None
    if repair is None:
        return None
    grace = timedelta(seconds=repair.grace_seconds)
    back = max(
        (fact.at for fact in draft.book.of(NodeReturned) if fact.about.node == action.node),
        default=None,
    )
    # A repair that was announced before the node's last return is over.
    since = max(filter(None, (back, lost.at - grace)))
    said = [
        fact for fact in draft.book.of(NodeHealth) if _repairs(fact, action) and fact.at >= since
    ]
    until = lost.at + grace
    announced = timedelta(seconds=repair.announced_seconds)
    return max(until, said[-1].at + announced) if said else until


def _repairs(fact: NodeHealth, action: Action) -> bool:
    announced = fact.repair_action.lower()  # older facts have the backend's own spelling
    return fact.instance_id == action.instance_id != "" and announced in ("reboot", "replace")


def _hold(draft: Draft, action: Action, until: datetime) -> None:
    draft.held.add(action.id)
    draft.by(until)
    if draft.handle_once(f"held-{action.id}"):
        draft.note(
            f"held-{action.id}",
            "RepairAwaited",
            "AWS repairs this cluster's nodes itself: another node is asked for "
            f"if {action.node} is not back by {until:%H:%M:%S} UTC.",
        )
