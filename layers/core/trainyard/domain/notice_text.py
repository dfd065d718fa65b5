"""A notice as text for a phone's screen, and what subscriptions filter by."""

from __future__ import annotations

from typing import get_args

from trainyard_contracts.user_events import SEVERITIES, UserEvent, UserEventType

#: SNS: less than 100 characters, with no line break and no control character.
SUBJECT_CHARACTERS = 99
#: What a locked screen shows of it. The whole message is in the event.
SENTENCE_CHARACTERS = 240
#: A value of a job or a person may be long; a filter needs no more.
VALUE_CHARACTERS = 256

_HAPPENED: dict[UserEventType, str] = {
    "run.submitted": "was submitted",
    "run.started": "started",
    "run.recovered": "recovered",
    "run.finished": "finished",
    "run.failed": "failed",
    "run.cancelled": "was cancelled",
    "run.budget": "spent budget",
    "approval.needed": "waits for an approval",
    "approval.approved": "was approved",
    "approval.denied": "was denied",
    "approval.expired": "was approved by nobody in time",
    "cluster.ready": "is ready",
    "cluster.failed": "failed",
    "cluster.idle": "is idle and will be deleted",
    "cluster.deleted": "was deleted",
    "budget.warned": "spends its sum",
    "budget.exhausted": "is used up",
    "webhook.disabled": "was disabled",
}
_TYPES: dict[str, UserEventType] = {name: name for name in get_args(UserEventType)}


def subject_of(event: UserEvent) -> str:
    """One line: what it is about, and what happened. The name gives way to the rest."""
    type_ = _TYPES.get(event.type)
    happened = _HAPPENED[type_] if type_ else event.type
    room = SUBJECT_CHARACTERS - len(happened) - 1
    return f"{_line(_name(event), room)} {happened}"


def text_of(event: UserEvent) -> str:
    """The subject, too: a phone and a chat show no other."""
    lines = [subject_of(event), _line(event.message, SENTENCE_CHARACTERS), _where(event)]
    return "\n".join(line for line in lines if line)


def attributes_of(event: UserEvent) -> dict[str, str]:
    """By name; one without a value is absent, as SNS refuses an empty one."""
    run, cluster = event.run, event.cluster
    type_ = _TYPES.get(event.type)
    values = {
        "type": event.type,
        "severity": SEVERITIES.get(type_, "info") if type_ else "info",
        "run": run.id if run else cluster.run if cluster else "",
        "cluster": run.cluster if run else cluster.name if cluster else "",
        "owner": run.owner if run else "",
    }
    lines = {name: _line(value, VALUE_CHARACTERS) for name, value in values.items()}
    return {name: value for name, value in lines.items() if value}


def _name(event: UserEvent) -> str:
    if event.run:
        return event.run.name or event.run.id
    if event.cluster:
        return event.cluster.name
    if event.budget:
        return f"Budget {event.budget.name}"
    return f"Webhook {event.webhook.id}" if event.webhook else "Trainyard"


def _where(event: UserEvent) -> str:
    if not event.run:
        return ""
    parts = (event.run.id, event.run.owner, event.run.cluster)
    return ", ".join(_line(part, VALUE_CHARACTERS) for part in parts if part)


def _line(text: str, most: int) -> str:
    """On one line, without control characters, cut with an ellipsis."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    joined = " ".join(shown.split())
    return joined if len(joined) <= most else joined[: most - 1].rstrip() + "…"
