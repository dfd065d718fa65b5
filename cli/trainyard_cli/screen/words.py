"""Words for a checkpoint, a person and labels that several screens use."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

Json = dict[str, Any]


def mark(checkpoint: Json) -> str:
    """'step 40', or 'copy 3': the copies of one whose step is not known are only counted."""
    return f"{'copy' if checkpoint.get('counted') else 'step'} {checkpoint['step']}"


def began_with(attempt: Json) -> str:
    """What its program says that it resumed from, else what was there for it; '' = nothing."""
    said = attempt.get("resumedFrom")
    return f"step {said}" if said is not None else attempt.get("beganWith") or ""


def labels_text(labels: dict[str, str] | None) -> str:
    """In one cell of a table."""
    pairs = [f"{key}={value}" if value else key for key, value in (labels or {}).items()]
    return ", ".join(pairs) or "-"


def name_of(person: Json | None) -> str:
    """A person in a column; a version that did not keep who it was gives none."""
    return escape(person["name"]) if person else "-"
