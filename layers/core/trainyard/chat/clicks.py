"""A click of a button: decided by who clicked, done once; its message says so afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trainyard.app.people.on_behalf import Caller, OnBehalf
from trainyard.chat.approving import (
    IDS,
    LIST,
    approval_page,
    approvals_page,
    run_of,
    unasked_page,
)
from trainyard.chat.asking import LEAVE, Button, anew
from trainyard.chat.blocks import Message, escaped, message, moment
from trainyard.chat.drafts import brought, spec_of
from trainyard.chat.front.mistakes import MOST_REASON
from trainyard.chat.requests import SlackClick, SlackForm
from trainyard.domain.errors import RetryableError, TrainyardError, WrongState
from trainyard.domain.words import who
from trainyard.ports import Ports


class Claims(Protocol):
    """Which requests are in hand or answered, so that one that comes again is answered once."""

    def take(self, request_id: str) -> bool:
        """False: it is answered, or another is at it, who did not die meanwhile."""
        ...

    def settle(self, request_id: str, outcome: str = "") -> None:
        """It is answered, and this came of it."""
        ...

    def outcome(self, request_id: str) -> str:
        """What came of it; '' if nobody wrote that down."""
        ...

    def give_back(self, request_id: str) -> None:
        """It is not answered: the next one may try."""
        ...

    def hold(self, request_id: str, seconds: int) -> None:
        """Nobody takes it for so long, and then anybody may."""
        ...


@dataclass(frozen=True)
class Pressed:
    """`instead`: the message with the buttons becomes this one."""

    said: Message
    instead: bool


def pressed(ports: Ports, claims: Claims, caller: Caller, click: SlackClick) -> Pressed:
    """Raises Forbidden, and what the act raises; its buttons then stay for others."""
    try:
        given = Button.read(click.value)
    except ValueError as mistake:
        page = message("This button is not understood", [f"{escaped(str(mistake))}."])
        return Pressed(page, instead=False)
    if given.act in IDS:
        if click.action == IDS["deny"] and not ports.approvals.get(given.approval).over:
            OnBehalf(ports, caller).check_decides(ports.approvals.get(given.approval))
            return Pressed(unasked_page(ports, given), instead=False)
        return decided(ports, caller, given)
    if click.action == LEAVE:
        return Pressed(_ended(given, "Left as it is", "Nothing was done."), instead=True)
    if ports.clock.now() > given.until:
        words = f"It was made to work until {moment(given.until)}. Type the command once more."
        return Pressed(_ended(given, "This button is too old", words), instead=True)
    if moved := _moved_on(ports, given):
        return Pressed(_ended(given, "Nothing was done", moved), instead=True)
    return _once(ports, claims, caller, given)


def decided(ports: Ports, caller: Caller, given: Button) -> Pressed:
    """Each person has a word of their own, which counts once however often they click."""
    done = OnBehalf(ports, caller).decide_approval(
        given.approval, approve=given.act == "approve", reason=given.reason
    )
    if given.page == LIST:
        return Pressed(approvals_page(ports, caller, done), instead=True)
    return Pressed(approval_page(done, run_of(ports, done.run_id)), instead=True)


def denied(ports: Ports, caller: Caller, form: SlackForm) -> Pressed:
    """By the form that asks why."""
    about, why = form.about, form.values.get("reason", "").strip()[:MOST_REASON]
    given = Button(
        "deny", "", 0, approval=about["approval"], reason=why, page=about.get("page", "")
    )
    return decided(ports, caller, given)


def _once(ports: Ports, claims: Claims, caller: Caller, given: Button) -> Pressed:
    """Who dies amid the act leaves the button used: nobody knows whether it was done."""
    mark = f"button-{given.once}"
    if not claims.take(mark):
        did = claims.outcome(mark)
        return Pressed(_used(given, did), instead=bool(did))
    claims.settle(mark)
    try:
        did = _did(ports, OnBehalf(ports, caller), given)
    except TrainyardError as refused:
        claims.give_back(mark)
        if refused.retryable:
            raise RetryableError(
                refused.detail, next_step="Press the button once more in a minute."
            ) from refused
        raise
    by = f"{escaped(who(caller.person))} asked for it, {moment(caller.at)}."
    claims.settle(mark, f"{did}\n{by}")
    return Pressed(_ended(given, did, f"{by} {_look(given)}"), instead=True)


def _used(given: Button, outcome: str) -> Message:
    """Of one that was used; who used it may not have lived to say what came of it."""
    did, _, by = outcome.partition("\n")
    if did:
        return _ended(given, did, f"{by} {_look(given)}")
    words = f"Whether that came to its end is not known. Look: {_look(given)}."
    return _ended(given, "This button was used already", words)


def _ended(given: Button, title: str, words: str) -> Message:
    target = given.run or f"{given.node} of {given.cluster}"
    return message(title, [words], end=f"`{escaped(target)}`")


def _look(given: Button) -> str:
    if given.run:
        return f"`/trainyard show {escaped(given.run)}`"
    return f"`/trainyard nodes {escaped(given.cluster)}`"


def _moved_on(ports: Ports, given: Button) -> str:
    """What came to a run since the button was made, that the button did not know of."""
    if not given.run or given.act in ("rerun", "submit"):
        return ""
    run = ports.runs.get(given.run)
    if (run.life, run.terminal) == (given.life, given.ended):
        return ""
    return (
        f"*{escaped(run.name)}* has moved on since: it is {run.status} now. If you still want it, "
        f"type `/trainyard {given.act} {run.id}` once more."
    )


def _did(ports: Ports, behalf: OnBehalf, given: Button) -> str:
    """What was done, as a title. Raises what the use cases do."""
    why = "asked for in Slack"
    if given.act == "replace":
        result = behalf.replace_node(given.cluster, given.node, reason=why)
        if given.node in result.failed:
            raise WrongState(f"AWS did not replace it: {result.failed[given.node]}")
        return f"{given.node} of {given.cluster} is being replaced"
    if given.act == "rerun":
        old = ports.runs.get(given.run)
        new = behalf.submit_run(anew(old), idempotency_key=f"slack-{given.once}")
        return f"{new.name} is submitted anew: {new.id}"
    if given.act == "submit":
        spec = spec_of(ports.runs.get(given.run), brought(given.changes))
        new = behalf.submit_run(spec, idempotency_key=f"slack-{given.once}")
        waits = ", and waits for people" if new.approval is not None else ""
        return f"{new.name} is submitted{waits}: {new.id}"
    if given.act == "cancel":
        return f"{behalf.cancel_run(given.run, reason=why).name} is being cancelled"
    if given.act == "resume":
        return f"{behalf.resume_run(given.run, None, reason=why).name} is resumed"
    return f"{behalf.export_run(given.run, reason=why).name} is being exported"
