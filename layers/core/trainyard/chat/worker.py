"""Answers what a person typed or clicked: once, to them, with what they may read and change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from trainyard.app.people.on_behalf import Caller, OnBehalf
from trainyard.chat.approving import asks_why
from trainyard.chat.blocks import Message, escaped, message, quoted
from trainyard.chat.clicks import Claims, Pressed, denied, pressed
from trainyard.chat.commands import said
from trainyard.chat.front.mistakes import DENY
from trainyard.chat.home import home_page
from trainyard.chat.members import person_of
from trainyard.chat.requests import (
    Asked,
    SlackClick,
    SlackCommand,
    SlackForm,
    SlackHome,
    request_of,
)
from trainyard.chat.submitting import asked_by_form, opened
from trainyard.chat.web_api import Limited, SlackRefused, Views
from trainyard.domain.errors import TrainyardError
from trainyard.ports import Ports

#: A response_url takes answers for 30 minutes.
USABLE = timedelta(minutes=29)
#: A home is drawn once in so many seconds, however often it is opened.
HOME_SECONDS = 5


class Replies(Protocol):
    """Where answers go."""

    def send(self, url: str, message: dict[str, Any]) -> str:
        """'' if Slack took it, else why it never will. Raises RetryableError if it may later."""
        ...


@dataclass(frozen=True)
class Chat:
    """What answering needs beside the ports. `people` reads the list of Slack's people.

    `views` opens forms and draws homes; None where the app has no token.
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
    if isinstance(asked, SlackHome):
        return _home(ports, chat, asked)
    shown, defect = _message(ports, chat, asked)
    if shown is None:
        chat.claims.settle(asked.id)
        return Answered("answered", "a form is open", asked.who)
    refusal = _sent(ports, chat, asked, shown)
    if defect is not None:
        raise defect  # it is answered; this rings, and a repeated call finds that out
    return Answered("dropped" if refusal else "answered", refusal or "as asked", asked.who)


def _sent(ports: Ports, chat: Chat, asked: Asked, shown: Pressed) -> str:
    """Why Slack never takes the answer; '' if it did."""
    sent = False
    try:
        if asked.place:
            refusal = _drawn(ports, chat, asked, shown.said)
        else:
            refusal = chat.replies.send(asked.response_url, _wire(shown, asked))
        sent = True
    finally:
        if not sent:
            chat.claims.give_back(asked.id)
    chat.claims.settle(asked.id)
    return refusal


def _wire(shown: Pressed, asked: Asked) -> dict[str, Any]:
    """After a click the message with the button stays for others, unless it has changed."""
    clicked = isinstance(asked, SlackClick) or (isinstance(asked, SlackForm) and asked.form == DENY)
    return shown.said.wire_of_click(instead=shown.instead) if clicked else shown.said.wire()


def _message(ports: Ports, chat: Chat, asked: Asked) -> tuple[Pressed | None, Exception | None]:
    """The answer, and what is wrong with Trainyard if that is why it is not as asked.

    None where a form is the answer.
    """
    try:
        return _allowed(ports, chat, asked), None
    except TrainyardError as refused:
        return Pressed(refusal_page(refused), instead=False), None
    except Exception as defect:  # noqa: BLE001  # the last resort: the person waits for an answer
        failed = TrainyardError(f"The request's id is {asked.id}.")
        return Pressed(refusal_page(failed), instead=False), defect


def _allowed(ports: Ports, chat: Chat, asked: Asked) -> Pressed | None:
    by = _caller(ports, chat, asked)
    if by is None:
        return Pressed(stranger_page(asked.who), instead=False)
    if isinstance(asked, SlackForm):
        if asked.form == DENY:
            return denied(ports, by, asked)
        return Pressed(asked_by_form(ports, by, asked), instead=False)
    if isinstance(asked, SlackCommand):
        if opened(ports, by, chat.views, asked):
            return None
        return Pressed(said(ports, by, asked.text, asked.command), instead=False)
    assert isinstance(asked, SlackClick)
    if asks_why(ports, by, chat.views, asked):
        return None
    return pressed(ports, chat.claims, by, asked)


def _caller(ports: Ports, chat: Chat, asked: Asked) -> Caller | None:
    """None of one who is not in the list. Raises Forbidden, ListUnreadable."""
    person = person_of(chat.people(), asked.who)
    if person is None:
        return None
    by = Caller(person, asked.id, asked.at, user_agent=f"Slack {asked.who}")
    OnBehalf(ports, by).check_reads()
    return by


def _home(ports: Ports, chat: Chat, asked: SlackHome) -> Answered:
    """One who opens it again and again finds what was drawn just now."""
    mark = f"home-{asked.team}-{asked.user}"
    if not chat.claims.take(mark):
        chat.claims.settle(asked.id)
        return Answered("repeated", "the home was drawn just now", asked.who)
    drawn = False
    try:
        refusal = _drawn(ports, chat, asked, None)
        drawn = True
    finally:
        if not drawn:
            chat.claims.give_back(mark)
            chat.claims.give_back(asked.id)
    chat.claims.hold(mark, HOME_SECONDS)
    chat.claims.settle(asked.id)
    return Answered("dropped" if refusal else "answered", refusal or "its home", asked.who)


def _drawn(ports: Ports, chat: Chat, asked: Asked, news: Message | None) -> str:
    """Why Slack does not take the home; '' if it did. Raises RetryableError, and a defect."""
    if chat.views is None:
        return "there is no token, so no home is drawn"
    try:
        by = _caller(ports, chat, asked)
        page = stranger_page(asked.who) if by is None else home_page(ports, by, news)
    except TrainyardError as refused:
        page = refusal_page(refused)
    view = {"type": "home", "blocks": list(page.blocks)}
    try:
        chat.views.call("views.publish", {"user_id": asked.user, "view": view})
    except (Limited, SlackRefused) as refused:
        return refused.detail
    return ""


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
