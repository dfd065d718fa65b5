"""An approval that waits, as people in Slack decide on it; and what it is afterwards."""

from __future__ import annotations

from trainyard.chat.asking import LABELS, Button
from trainyard.chat.blocks import (
    Asks,
    Block,
    Message,
    button,
    buttons,
    context,
    escaped,
    header,
    moment,
    quoted,
    section,
)
from trainyard.domain.approval_records import Approval, Vote
from trainyard.domain.errors import RecordUnreadable, RunNotFound
from trainyard.domain.records import Run
from trainyard.domain.words import listed, who
from trainyard.ports import Ports

#: Each has an id of its own, as two buttons of one block must.
IDS = {"approve": "trainyard.approve", "deny": "trainyard.deny"}
_NOW = {
    "approved": "is approved, and the run goes on",
    "used": "is approved, and the run goes on",
    "denied": "is denied, and the run ends",
    "expired": "was approved by nobody in time, and the run ends",
    "withdrawn": "is not needed any more: the run has ended",
}


def approval_page(approval: Approval, run: Run | None) -> Message:
    """The same for all who see it, so that a message may be edited from anywhere."""
    name = run.name if run is not None else approval.subject
    title = f"{name} waits for an approval"
    if approval.over:
        title = f"The approval of {name} {_NOW[approval.state]}"
    lines = [quoted(approval.because, 1000), _votes(approval)]
    blocks: list[Block] = [header(title), *map(section, lines)]
    if not approval.over:
        blocks.append(_buttons(approval, name))
        blocks.append(context(f"Until {moment(approval.expires_at)}, `{approval.id}`"))
    else:
        blocks.append(context(f"`{approval.id}`"))
    return Message(escaped(title), blocks)


def run_of(ports: Ports, run_id: str) -> Run | None:
    """None of one that is gone or cannot be read."""
    try:
        return ports.runs.get(run_id)
    except (RunNotFound, RecordUnreadable):
        return None


def _votes(approval: Approval) -> str:
    said = [f"Asked for by {escaped(who(approval.requester))}."]
    if approval.approvers:
        names = listed([one.by.name for one in approval.approvers])
        said.append(f"Approved by {escaped(names)}.")
    if approval.denied is not None:
        said.append(f"Denied by {escaped(_denied(approval.denied), 400)}.")
    if not approval.over:
        left = approval.needed - len(approval.approvers)
        people = "one person who" if left == 1 else f"{left} people who"
        said.append(f"It needs {people} did not ask for it.")
    return " ".join(said)


def _denied(vote: Vote) -> str:
    return f"{vote.by.name} ({vote.reason})" if vote.reason else vote.by.name


def _buttons(approval: Approval, name: str) -> Block:
    follows = {
        "approve": f"{name} then begins by itself, as soon as enough people have approved it.",
        "deny": f"{name} then ends, and says that you denied it.",
    }
    return buttons(
        *(
            button(
                IDS[act],
                LABELS[act],
                Button(
                    act, approval.id, int(approval.created_at.timestamp()), approval=approval.id
                ).value,
                Asks(f"{LABELS[act]} it?", f"{approval.because[:150]} {text}", LABELS[act]),
                style="primary" if act == "approve" else "danger",
            )
            for act, text in follows.items()
        )
    )
