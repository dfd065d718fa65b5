"""What commands print: JSON on stdout with --json, else tables and words; progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainyard_sdk.progress import bytes_text as bytes_text  # noqa: PLC0414
from trainyard_sdk.terminal_text import plain, plain_json

from ..problems import ApiProblem, CliError

#: Without a terminal nothing is wrapped, so that `trainyard node ls NAME | grep ...` sees whole
#: lines.
UNWRAPPED = 10_000
#: The columns of a table that may take several lines.
WRAPPED = ("reason", "nodes")


def _console(stderr: bool) -> Console:
    there = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, width=None if there else UNWRAPPED)


out = _console(stderr=False)
err = _console(stderr=True)

STYLES = {
    "Succeeded": "green", "Ready": "green", "Running": "cyan", "Failed": "red",
    "Cancelled": "yellow", "Recovering": "yellow", "WaitingForNode": "yellow", "linked": "green",
    "Waiting": "yellow",
    "Updating": "cyan", "Stopped": "yellow", "silent": "red", "down": "red", "rejected": "red",
    "whole": "green",
}  # fmt: skip


def print_json(document: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    sys.stdout.write(plain_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def styled(word: object) -> str:
    """A state's word in its colour, as rich markup."""
    text = escape(str(word))
    style = STYLES.get(str(word))
    return f"[{style}]{text}[/]" if style else text


def scheduler_word(node: Mapping[str, Any]) -> str:
    """What Slurm says of a node; the controller is none of Slurm's nodes."""
    return "-" if node["role"] == "controller" else str(node["scheduler"])


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A plain table; cells are rich markup. Words and lists wrap; people copy the other columns."""
    cells = [[Text.from_markup(str(cell)) for cell in row] for row in rows]
    result = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        whole = column not in WRAPPED
        widest = max([len(column), *[row[number].cell_len for row in cells]])
        result.add_column(
            column, overflow="fold", no_wrap=whole, min_width=widest if whole else None
        )
    for row in cells:
        result.add_row(*row)
    return result


def print_table(what: Table) -> None:
    """On a narrow terminal lines run over, as those of `kubectl get` do; no cell is cut."""
    _print(_wide_enough(what), what)


def _wide_enough(what: Table) -> Console:
    least = Measurement.get(out, out.options.update(max_width=UNWRAPPED), what).minimum
    if least <= out.width:
        return out
    return Console(file=out.file, width=least, force_terminal=out.is_terminal, highlight=False)


def print_with_reasons(what: Table, reasons: Sequence[str]) -> None:
    """Each row on one line, and what there is to say of it on those below."""
    console = _wide_enough(what)
    with console.capture() as held:
        console.print(what)
    for line, reason in zip(held.get().splitlines(), ["", *reasons], strict=True):
        out.print(Text.from_ansi(line.rstrip()), soft_wrap=True)
        if reason:
            below = Padding(Text.from_markup(reason, style="dim"), (0, 0, 0, 2), expand=False)
            out.print(below)


def print_fields(document: Mapping[str, object]) -> None:
    """Names and values, one a line, without the empty ones.

    A long value, such as a problem with its log, takes as many lines as it needs.
    """
    result = Table(box=None, pad_edge=False, show_header=False)
    result.add_column(no_wrap=True, style="bold")
    result.add_column(overflow="fold")
    for name, value in document.items():
        if value not in (None, "", []):
            result.add_row(name, Text.from_markup(str(value)))
    _print(out, result)


def _print(console: Console, what: Table) -> None:
    """Print a table; without a terminal, leave out the blanks that fill up its cells."""
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as held:
        console.print(what)
    console.file.write("".join(f"{line.rstrip()}\n" for line in held.get().splitlines()))
    console.file.flush()


def moment(text: str | None) -> str:
    """A time of the API as local clock time, where its day was said before."""
    return "-" if not text else _here(text).strftime("%T")


def day_moment(text: str | None) -> str:
    """A time of the API as local date and clock time, in a column that `zoned` names."""
    return "-" if not text else _here(text).strftime("%F %T")


def day(text: str) -> str:
    """The local date of a time of the API, with the zone."""
    return _here(text).strftime("%F %Z")


def zoned(column: str) -> str:
    """The name of a column of times."""
    return f"{column} ({datetime.now().astimezone():%Z})"


def _here(text: str) -> datetime:
    """All times by one zone: what is the zone now, also for times of last summer."""
    return datetime.fromisoformat(text).astimezone(datetime.now().astimezone().tzinfo)


def number_text(value: float | str | None) -> str | None:
    """A measured number in the digits that say something; JSON has all of them."""
    return f"{value:.6g}" if isinstance(value, float) else None if value is None else str(value)


def ago(text: str | None) -> str:
    """How long ago a time of the API was."""
    if not text:
        return "-"
    seconds = max(
        0, int((datetime.now(timezone.utc) - datetime.fromisoformat(text)).total_seconds())
    )
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def seconds_text(seconds: float) -> str:
    """A duration in the two units that matter."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    for size, unit, smaller, small in (
        (86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {small}"
    return f"{whole} s"


def date(text: str | None) -> str:
    """A time of the API as local date and clock time, with the zone."""
    return "-" if not text else _here(text).strftime("%F %T %Z")


def between(start: str | None, end: str | None) -> float | None:
    """Seconds from one time of the API to another; None if one of them is not known."""
    if not start or not end:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def may_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and err.is_terminal


def confirmed(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask before something is lost. Without a terminal nobody can answer, so nobody is asked.

    Raises typer.Abort for a no.
    """
    if not yes and not as_json and may_ask():
        typer.confirm(question, abort=True, err=True)


def print_error(error: CliError, *, as_json: bool) -> None:
    """The error with its fields and the next step."""
    if as_json:
        print_json({"error": error.as_json()})
        return
    errors = error.errors if isinstance(error, ApiProblem) else []
    # The detail repeats the first of the fields that follow.
    detail = (
        "" if errors and error.detail.startswith(f"{errors[0].get('field')}: ") else error.detail
    )
    err.print(f"[red bold]{_shown(error.title)}[/]" + (f": {_shown(detail)}" if detail else ""))
    for item in errors:
        err.print(f"  [bold]{_shown(item.get('field', ''))}[/]  {_shown(item.get('message', ''))}")
    if error.next_step:
        err.print(f"Next: {_shown(error.next_step)}")
    if isinstance(error, ApiProblem) and error.status >= 500 and error.instance:
        err.print(f"Request: {_shown(error.instance.rpartition(':')[2])}")


def _shown(text: str) -> str:
    """An error quotes what was sent or received, whatever that was."""
    return escape(plain(text))
