"""When another node is asked for in a lost one's place.

At once, or after a backend that repairs nodes itself had time to do it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.domain.decisions import Draft
from trainyard.domain.facts import NodeHealth
from trainyard.domain.records import Action
from trainyard_contracts.events import Fact, NodeReturned

#: HyperPod reboots a node in one to three minutes; a replacement takes twenty to thirty.
GRACE_SECONDS = 300
#: The backend said what it does to the node: it is given the time of a replacement.
REPAIR_SECONDS = 1800


def review(draft: Draft) -> None:
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
    if draft.cluster is None or not draft.cluster.spec.repairs_nodes:
        return None
    grace = lost.at + timedelta(seconds=GRACE_SECONDS)
    back = max(
        (fact.at for fact in draft.book.of(NodeReturned) if fact.about.node == action.node),
        default=None,
    )
    # A repair that was announced before the node's last return is over.
    since = max(filter(None, (back, lost.at - timedelta(seconds=GRACE_SECONDS))))
    said = [
        fact for fact in draft.book.of(NodeHealth) if _repairs(fact, action) and fact.at >= since
    ]
    return max(grace, said[-1].at + timedelta(seconds=REPAIR_SECONDS)) if said else grace


def _repairs(fact: NodeHealth, action: Action) -> bool:
    return fact.instance_id == action.instance_id != "" and fact.repair_action in (
        "Reboot",
        "Replace",
    )


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
