"""What is wrong in a form, as far as it can be said while it is open: without the run itself.

Slack shows each mistake below its field if the acknowledgement has it. What is judged here is
judged again by the worker, which knows the rest.
https://docs.slack.dev/surfaces/modals#displaying_errors
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping

#: The form that submits a run, and the one that asks why something is denied.
SUBMIT, DENY = "trainyard.submit", "trainyard.deny"
#: Those of the spec (layers/contracts), which this function does not load.
MOST_NODES, MOST_PRIORITY, MOST_USD = 6758, 100, 1e9
LEAST_SECONDS, MOST_SECONDS = 60, 60 * 86_400
MOST_NAME = 63
#: As the API takes it.
MOST_REASON = 500
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
#: Slack's clients put these in the place of what people type.
TYPED = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " "})


def whole(text: str) -> int:
    """Raises ValueError with what would be right; so do those below."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number, such as 2") from None


def usd(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be an amount in USD, such as 25") from None


def seconds(text: str) -> int:
    """Of hours."""
    try:
        return round(float(text) * 3600)
    except (ValueError, OverflowError):
        raise ValueError("must be a number of hours, such as 2.5") from None


def arguments(text: str) -> list[str]:
    try:
        return shlex.split(text.translate(TYPED))
    except ValueError as mistake:
        raise ValueError(f"must be words, with quotes in pairs: {mistake}") from None


def mistakes(form: str, values: Mapping[str, str]) -> dict[str, str]:
    """By the ids of the form's blocks, which are called as its fields."""
    found: dict[str, str] = {}
    for name, judge in _JUDGES.get(form, {}).items():
        if name not in values:
            continue
        try:
            judge(values[name].strip())
        except ValueError as mistake:
            text = str(mistake)
            found[name] = f"{text[:1].upper()}{text[1:]}."
    return found


def _name(text: str) -> None:
    if len(text) > MOST_NAME or not _NAME.fullmatch(text):
        raise ValueError(
            "must be letters, digits and inner hyphens, 1 to 63 of them (no underscore)"
        )


def _nodes(text: str) -> None:
    if not 1 <= whole(text) <= MOST_NODES:
        raise ValueError(f"must be 1 to {MOST_NODES}")


def _hours(text: str) -> None:
    if not LEAST_SECONDS <= seconds(text) <= MOST_SECONDS:
        raise ValueError(f"must be from a minute (0.017) to {MOST_SECONDS // 3600} hours")


def _budget(text: str) -> None:
    """None, if it is empty."""
    if text and not 0 < usd(text) <= MOST_USD:
        raise ValueError(f"must be above 0 and at most {MOST_USD:.0f} USD")


def _priority(text: str) -> None:
    if abs(whole(text)) > MOST_PRIORITY:
        raise ValueError(f"must be -{MOST_PRIORITY} to {MOST_PRIORITY}")


def _reason(text: str) -> None:
    if not text:
        raise ValueError("must say why: the one who asked reads it")
    if len(text) > MOST_REASON:
        raise ValueError(f"must have at most {MOST_REASON} characters")


_JUDGES: Mapping[str, Mapping[str, Callable[[str], object]]] = {
    SUBMIT: {
        "name": _name,
        "nodes": _nodes,
        "arguments": arguments,
        "hours": _hours,
        "budget": _budget,
        "priority": _priority,
    },
    DENY: {"reason": _reason},
}
