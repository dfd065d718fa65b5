"""Answers what a person typed or clicked: once, to them, with what they may read and change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from trainyard.app.people.on_behalf import Caller, OnBehalf
from trainyard.chat.blocks import Message, escaped, message, quoted
from trainyard.chat.clicks import Claims, pressed
from trainyard.chat.commands import said
from trainyard.chat.members import person_of
from trainyard.chat.requests import SlackClick, SlackCommand, SlackForm, request_of
from trainyard.chat.submitting import Views, asked_by_form, opened
from trainyard.domain.errors import TrainyardError
from trainyard.ports import Ports

Asked = SlackCommand | SlackClick | SlackForm
#: A response_url takes answers for 30 minutes.
USABLE = timedelta(minutes=29)


class Replies(Protocol):
    """Where answers go."""

    def send(self, url: str, message: dict[str, Any]) -> str:
        """'' if Slack took it, else why it never will. Raises RetryableError if it may later."""
        ...


@dataclass(frozen=True)
class Chat:
    """What answering needs beside the ports. `people` reads the list of Slack's people.

    `views` opens forms; None where the app has no token.
    """

    claims: Claims
    replies: Replies
    people: Callable[[], str | None]
    views: Views | None = None


@dataclass(frozen=True)
class Answered:
    """What became of a command, for the log: without its text and its response_url."""

    result: str
    reason: str
    who: str = ""


def answer(ports: Ports, chat: Chat, event: dict[str, Any]) -> Answered:
    """Raises RetryableError if Slack may take the answer later, and what is a defect."""
    try:
        asked = request_of(event)
    except ValueError as mistake:
        return Answered("dropped", str(mistake))
    if ports.clock.now() - asked.at > USABLE:
        return Answered("dropped", "it is too old to be answered", asked.who)
    if not chat.claims.take(asked.id):
        return Answered("repeated", "it is answered, or in hand", asked.who)
    wire, defect = _message(ports, chat, asked)
    if wire is None:
        chat.claims.settle(asked.id)
        return Answered("answered", "a form is open", asked.who)
    refusal = _sent(chat, asked, wire)
    if defect is not None:
        raise defect  # it is answered; this rings, and a repeated call finds that out
    return Answered("dropped" if refusal else "answered", refusal or "as asked", asked.who)


def _sent(chat: Chat, asked: Asked, wire: dict[str, Any]) -> str:
    """Why Slack never takes the answer; '' if it did."""
    sent = False
    try:
        refusal = chat.replies.send(asked.response_url, wire)
        sent = True
    finally:
        if not sent:
            chat.claims.give_back(asked.id)
    chat.claims.settle(asked.id)
    return refusal


def _message(
    ports: Ports, chat: Chat, asked: Asked
) -> tuple[dict[str, Any] | None, Exception | None]:
    """The answer, and what is wrong with Trainyard if that is why it is not as asked.

    None where a form is the answer.
    """
    try:
        return _allowed(ports, chat, asked), None
    except TrainyardError as refused:
        return _wire(refusal_page(refused), asked), None
    except Exception as defect:  # noqa: BLE001  # the last resort: the person waits for an answer
        failed = TrainyardError(f"The request's id is {asked.id}.")
        return _wire(refusal_page(failed), asked), defect


def _allowed(ports: Ports, chat: Chat, asked: Asked) -> dict[str, Any] | None:
    person = person_of(chat.people(), asked.who)
    if person is None:
        return _wire(stranger_page(asked.who), asked)
    by = Caller(person, asked.id, asked.at, user_agent=f"Slack {asked.who}")
    OnBehalf(ports, by).check_reads()
    if isinstance(asked, SlackForm):
        return asked_by_form(ports, by, asked).wire()
    if isinstance(asked, SlackCommand):
        if opened(ports, by, chat.views, asked):
            return None
        return said(ports, by, asked.text, asked.command).wire()
    done = pressed(ports, chat.claims, by, asked)
    return done.said.wire_of_click(instead=done.instead)


def _wire(page: Message, asked: Asked) -> dict[str, Any]:
    """After a click, beside the message with the button, which stays for others."""
    if isinstance(asked, SlackClick):
        return page.wire_of_click(instead=False)
    return page.wire()


def stranger_page(who: str) -> Message:
    lines = [
        "Trainyard does not know you yet, so it shows you nothing.",
        f"Ask an admin of the stack to add *{escaped(who)}* with your ARN to the list of Slack's "
        "people, which is the secret in the stack's parameter SlackPeopleArn. "
        "`trainyard whoami` shows your ARN.",
    ]
    return message("You are not in Trainyard's list", lines)


def refusal_page(refused: TrainyardError) -> Message:
    lines = [quoted(refused.detail, 2000), f"What to do: {escaped(refused.next_step, 900)}"]
    return message(refused.title, lines)
