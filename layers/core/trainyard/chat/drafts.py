"""A run that is to be submitted out of an earlier one: what a person may change of its spec.

The same fields are those of the form and the words of the command, so both say the same mistakes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainyard.chat.asking import anew
from trainyard.chat.front.mistakes import TYPED, arguments, seconds, usd, whole
from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.records import Run
from trainyard_contracts.base import words_for
from trainyard_contracts.specs import RunSpec


@dataclass(frozen=True)
class Field:
    """`place` is where it is in a spec; `shown` gives the earlier run's as the form shows it.

    `read` raises ValueError with what would be right.
    """

    label: str
    hint: str
    place: tuple[str, ...]
    shown: Callable[[RunSpec], str]
    read: Callable[[str], Any]


def _budget(spec: RunSpec) -> str:
    return "" if spec.budget is None else f"{spec.budget.max_usd:g}"


FIELDS: Mapping[str, Field] = {
    "name": Field(
        "Name", "letters, digits and hyphens", ("name",), lambda spec: spec.name, lambda text: text
    ),
    "nodes": Field(
        "Nodes", "on which it runs at once", ("job", "nodes"), lambda spec: str(spec.job.nodes),
        whole,
    ),
    "arguments": Field(
        "Arguments", "what the program is given, as in a shell", ("job", "arguments"),
        lambda spec: shlex.join(spec.job.arguments), arguments,
    ),
    "hours": Field(
        "Hours at most", "then it is stopped, and what is whole is exported",
        ("limits", "maxDurationSeconds"),
        lambda spec: f"{spec.limits.max_duration_seconds / 3600:.6g}", seconds,
    ),
    "budget": Field(
        "Budget in USD", "it is stopped before it costs more", ("budget", "maxUsd"), _budget, usd
    ),
    "priority": Field(
        "Priority", "on a cluster that runs share, higher ones come first", ("priority",),
        lambda spec: str(spec.priority), whole,
    ),
}  # fmt: skip


def typed(words: list[str]) -> dict[str, str]:
    """FIELD=VALUE, with quotes around what has spaces. Raises InvalidRequest."""
    try:
        parts = shlex.split(" ".join(words).translate(TYPED))
    except ValueError as mistake:
        raise _wrong("the command", f"quotes must come in pairs: {mistake}") from None
    found: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            raise _wrong(name, f"write it as FIELD=VALUE, with one of {', '.join(FIELDS)}")
        if name in found:
            raise _wrong(name, "is given twice; give it once")
        found[name] = value
    return found


def changed(run: Run, given: Mapping[str, str]) -> dict[str, str]:
    """Of what was given, what differs from the earlier run. Raises InvalidRequest."""
    for name in given:
        if name not in FIELDS:
            raise _wrong(name, f"is no field; there are {', '.join(FIELDS)}")
    spec = anew(run)
    return {
        name: value.strip()
        for name, value in given.items()
        if value.strip() != FIELDS[name].shown(spec)
    }


def spec_of(run: Run, changes: Mapping[str, str]) -> RunSpec:
    """The earlier run's spec with these changes, judged like any other. Raises InvalidRequest."""
    spec = anew(run)
    document = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for name, text in changes.items():
        _set(document, name, text)
    try:
        return RunSpec.model_validate(document)
    except ValidationError as wrong:
        raise _refused(wrong) from None


def _set(document: dict[str, Any], name: str, text: str) -> None:
    """A budget that is emptied is none."""
    field = FIELDS[name]
    if name == "budget" and not text:
        document.pop("budget", None)
        return
    try:
        value = field.read(text)
    except ValueError as mistake:
        raise _wrong(name, f"'{text[:100]}' {mistake}") from None
    *parents, last = field.place
    at = document
    for parent in parents:
        at = at.setdefault(parent, {})
    at[last] = value


def _refused(wrong: ValidationError) -> InvalidRequest:
    """By the field that the person knows it by, if it is one of these."""
    (first, *_) = wrong.errors(include_url=False)
    place = ".".join(map(str, first["loc"]))
    words = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch":
        words = words_for(str(first.get("ctx", {}).get("pattern", "")))
    known = {".".join(field.place): name for name, field in FIELDS.items()}
    field, _, rest = words.partition(": ") if not place else (place, "", words)
    return _wrong(known.get(field, field), rest or words)


def _wrong(field: str, words: str) -> InvalidRequest:
    error = FieldError(field[:100], words)
    return InvalidRequest(
        f"{field[:100]}: {words}", errors=[error], next_step="Correct it, and submit once more."
    )


def carried(changes: Mapping[str, str]) -> str:
    """As a button carries them; '' of none."""
    return json.dumps(dict(changes), separators=(",", ":")) if changes else ""


def brought(text: str) -> dict[str, str]:
    """Raises ValueError for what is none of ours."""
    found = json.loads(text) if text else {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise ValueError("its changes are not ours")
    return found
