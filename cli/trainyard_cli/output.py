"""What commands print: JSON alone on stdout with --json, else tables and words; progress always on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .problems import ApiProblem, TrainyardError

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

STYLES = {
    "Succeeded": "green", "Ready": "green", "Running": "cyan", "Failed": "red", "Cancelled": "yellow", "Recovering": "yellow",
    "WaitingForNode": "yellow", "linked": "green", "silent": "red", "down": "red", "rejected": "red", "whole": "green",
}  # fmt: skip


def print_json(document: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def styled(word: object) -> str:
    """A state's word in its colour, as rich markup."""
    text = escape(str(word))
    style = STYLES.get(str(word))
    return f"[{style}]{text}[/]" if style else text


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A plain table; the cells are rich markup."""
    result = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        result.add_column(column, overflow="fold", no_wrap=number == 0)  # the first is what people copy
    for row in rows:
        result.add_row(*[str(cell) for cell in row])
    return result


def fields(document: Mapping[str, object]) -> Table:
    """Names and values, one a line; what is empty is left out."""
    return table(["", ""], [(f"[bold]{name}[/]", value) for name, value in document.items() if value not in (None, "", [])])


def moment(text: str | None) -> str:
    """A time of the API as local clock time."""
    return "-" if not text else datetime.fromisoformat(text).astimezone().strftime("%H:%M:%S")


def ago(text: str | None) -> str:
    """How long ago a time of the API was."""
    if not text:
        return "-"
    seconds = max(0, int((datetime.now(timezone.utc) - datetime.fromisoformat(text)).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def bytes_text(number: float | None) -> str:
    """A size in binary units."""
    if number is None:
        return "-"
    value = float(number)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def print_error(error: TrainyardError, *, as_json: bool) -> None:
    """The error with its fields and the next step."""
    if as_json:
        print_json({"error": error.as_json()})
        return
    err.print(f"[red bold]{escape(error.title)}[/]" + (f": {escape(error.detail)}" if error.detail else ""))
    if isinstance(error, ApiProblem):
        for item in error.errors:
            err.print(f"  [bold]{escape(item.get('field', ''))}[/]  {escape(item.get('message', ''))}")
    if error.next_step:
        err.print(f"Next: {escape(error.next_step)}")
