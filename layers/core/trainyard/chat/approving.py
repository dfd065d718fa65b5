"""Approvals, as people in Slack decide on them: one, all that wait, and why one is denied."""

from __future__ import annotations

import json
import logging

from trainyard.app.people.on_behalf import Caller, OnBehalf
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
    plain,
    quoted,
    section,
)
from trainyard.chat.front.mistakes import DENY, MOST_REASON
from trainyard.chat.requests import SlackClick
from trainyard.chat.web_api import Views
from trainyard.domain.approval_records import Approval, Vote
from trainyard.domain.errors import Forbidden, RecordUnreadable, RunNotFound, TrainyardError
from trainyard.domain.records import Run
from trainyard.domain.words import counted, listed, who
from trainyard.ports import Ports

_LOG = logging.getLogger(__name__)
#: Each has an id of its own, as two buttons of one block must. `deny` asks why before.
IDS = {"approve": "trainyard.approve", "deny": "trainyard.deny"}
#: Denies at once: the reason is known, or there was no form to ask for it.
DENY_NOW = "trainyard.deny-now"
#: The page of a button in the list of all that wait.
LIST = "list"
#: Approvals of one message.
MOST_LISTED = 12
_NOW = {
    "approved": "is approved, and the run goes on",
    "used": "is approved, and the run goes on",
    "denied": "is denied, and the run ends",
    "expired": "was approved by nobody in time, and the run ends",
    "withdrawn": "is not needed any more: the run has ended",
}


def approval_page(approval: Approval, run: Run | None, *, reason: str = "") -> Message:
    """The same for all who see it, so that a message may be edited from anywhere.

    `reason` is what one person said beforehand; it is theirs whose click it becomes.
    """
    name = run.name if run is not None else approval.subject
    title = _title(approval, name)
    lines = [quoted(approval.because, 1000), _votes(approval)]
    if reason and not approval.over:
        lines.append(f"You say: {escaped(reason, 1000)}")
    blocks: list[Block] = [header(title), *map(section, lines)]
    if not approval.over:
        blocks.append(_buttons(approval, name, reason=reason))
        blocks.append(context(f"Until {moment(approval.expires_at)}, `{approval.id}`"))
    else:
        blocks.append(context(f"`{approval.id}`"))
    return Message(escaped(title), blocks)


def _title(approval: Approval, name: str) -> str:
    if approval.over:
        return f"The approval of {name} {_NOW[approval.state]}"
    return f"{name} waits for an approval"


def approvals_page(ports: Ports, caller: Caller, decided: Approval | None = None) -> Message:
    """All that wait, the oldest first, after what was just decided."""
    waiting = waiting_ones(ports)
    title = f"{counted(len(waiting), 'approval')} to be given" if waiting else "Approvals"
    blocks: list[Block] = [header(title)]
    if decided is not None:
        run = run_of(ports, decided.run_id)
        name = run.name if run is not None else decided.subject
        blocks.append(section(f"*{escaped(_title(decided, name))}*\n{_votes(decided)}"))
    for one in waiting[:MOST_LISTED]:
        blocks += waiting_blocks(ports, caller, one, LIST)
    if not waiting:
        blocks.append(section("Nothing waits for people."))
    elif len(waiting) > MOST_LISTED:
        blocks.append(context(f"{len(waiting) - MOST_LISTED} more: `trainyard approval ls`."))
    return Message(escaped(title), blocks)


def waiting_ones(ports: Ports) -> list[Approval]:
    """Those that somebody can still decide, the oldest first."""
    now = ports.clock.now()
    found = [one for one in ports.approvals.pending() if not one.expired_at(now)]
    return sorted(found, key=lambda one: (one.created_at, one.id))


def may_decide(ports: Ports, caller: Caller, approval: Approval) -> bool:
    try:
        OnBehalf(ports, caller).check_decides(approval)
    except Forbidden:
        return False
    return True


def waiting_blocks(ports: Ports, caller: Caller, approval: Approval, page: str) -> list[Block]:
    """Three blocks at most: what waits, its buttons for one who has a say in it, and its end."""
    run = run_of(ports, approval.run_id)
    name = run.name if run is not None else approval.subject
    said = f"*{escaped(name)}*\n{quoted(approval.because, 600)}\n{_votes(approval)}"
    end = f"Until {moment(approval.expires_at)}, `{approval.id}`"
    if not may_decide(ports, caller, approval):
        return [section(said), context(f"Others decide on it. {end}")]
    return [section(said), _buttons(approval, name, page=page), context(end)]


def run_of(ports: Ports, run_id: str) -> Run | None:
    """None of one that is gone or cannot be read."""
    try:
        return ports.runs.get(run_id)
    except (RunNotFound, RecordUnreadable):
        return None


def _votes(approval: Approval) -> str:
    said = [f"Asked for by {escaped(who(approval.requester))}."]
    if approval.approvers:
        names = listed([_word_of(one) for one in approval.approvers])
        said.append(f"Approved by {escaped(names, 700)}.")
    if approval.denied is not None:
        said.append(f"Denied by {escaped(_word_of(approval.denied), 700)}.")
    if not approval.over:
        left = approval.needed - len(approval.approvers)
        people = "one person who" if left == 1 else f"{left} people who"
        said.append(f"It needs {people} did not ask for it.")
    return " ".join(said)


def _word_of(vote: Vote) -> str:
    return f"{vote.by.name} ({vote.reason})" if vote.reason else vote.by.name


def _buttons(approval: Approval, name: str, *, page: str = "", reason: str = "") -> Block:
    """To deny asks by its form; if the reason is known, both ask by Slack's own dialog."""
    yes = _button(
        approval,
        "approve",
        IDS["approve"],
        f"{name} then begins by itself, as soon as enough people have approved it.",
        page=page,
        reason=reason,
    )
    if reason:
        return buttons(yes, _deny_now(approval, name, reason=reason))
    value = _carried(approval, "deny", page, "")
    asks_why = button(IDS["deny"], LABELS["deny"], value)
    return buttons(yes, {**asks_why, "style": "danger"})


def _deny_now(approval: Approval, name: str, *, page: str = "", reason: str = "") -> Block:
    follows = f"{name} then ends, and says that you denied it."
    return _button(approval, "deny", DENY_NOW, follows, page=page, reason=reason)


def _button(
    approval: Approval, act: str, id_: str, follows: str, *, page: str, reason: str
) -> Block:
    asks = Asks(f"{LABELS[act]} it?", f"{approval.because[:150]} {follows}", LABELS[act])
    style = "primary" if act == "approve" else "danger"
    return button(id_, LABELS[act], _carried(approval, act, page, reason), asks, style=style)


def _carried(approval: Approval, act: str, page: str, reason: str) -> str:
    at = int(approval.created_at.timestamp())
    return Button(act, approval.id, at, approval=approval.id, page=page, reason=reason).value


# Why it is denied


def asks_why(ports: Ports, caller: Caller, views: Views | None, click: SlackClick) -> bool:
    """Whether a form is open now that asks why it is denied. Raises Forbidden, ApprovalNotFound."""
    if click.action != IDS["deny"] or views is None or not click.trigger:
        return False
    try:
        given = Button.read(click.value)
    except ValueError:
        return False  # it is none of ours, and who reads the click says so
    approval = ports.approvals.get(given.approval)
    if approval.over:
        return False
    OnBehalf(ports, caller).check_decides(approval)
    about = {"approval": approval.id, "page": given.page}
    about |= {"place": click.place} if click.place else {"url": click.response_url}
    try:
        views.call("views.open", {"trigger_id": click.trigger, "view": _form(approval, about)})
    except TrainyardError as refused:  # too late, or no token: a button comes in its place
        _LOG.warning("a form is not opened: %s", refused.detail)
        return False
    return True


def _form(approval: Approval, about: dict[str, str]) -> Block:
    element = {
        "type": "plain_text_input", "action_id": "reason", "multiline": True,
        "max_length": MOST_REASON,
    }  # fmt: skip
    why = {
        "type": "input",
        "block_id": "reason",
        "label": plain("Why", 75),
        "hint": plain("the one who asked reads it, and so does the audit list", 150),
        "element": element,
    }
    return {
        "type": "modal",
        "callback_id": DENY,
        "title": plain("Deny it?", 24),
        "submit": plain("Deny", 24),
        "close": plain("Go back", 24),
        "private_metadata": json.dumps(about),
        "blocks": [section(quoted(approval.because, 1000)), why],
    }


def unasked_page(ports: Ports, given: Button) -> Message:
    """In the place of a form that could not be opened; nothing is decided yet."""
    approval = ports.approvals.get(given.approval)
    run = run_of(ports, approval.run_id)
    name = run.name if run is not None else approval.subject
    title = f"Deny {name}?"
    lines = [
        "Slack opened no form that asks why. To say it, type "
        f"`/trainyard approve {escaped(approval.id)} WHY`, and click *Deny* there."
    ]
    without = _deny_now(approval, name, page=given.page)
    named = {**without, "text": plain("Deny without a reason", 75)}
    return Message(escaped(title), [header(title), *map(section, lines), buttons(named)])
