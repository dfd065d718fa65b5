"""Lists that fit the terminal: what there is no room for beside the rest goes below its row."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.text import Text

from .output import WRAPPED, out, print_table, print_with_reasons, table

#: So much of a column that wraps must be seen beside the others, or else it goes below.
_LEAST_WRAPPED = 40
_BETWEEN = 2


def print_fitting(
    columns: Sequence[str], rows: Sequence[Sequence[object]], below: Sequence[str]
) -> None:
    """A table as `table` makes it of rich markup.

    Where the terminal is too narrow for it, columns that `below` names go below each row, the first
    one first, until the rest has room. Those that wrap come first there.
    """
    kept = _kept(columns, rows, [columns.index(name) for name in below])
    shown = table([columns[at] for at in kept], [[row[at] for at in kept] for row in rows])
    if len(kept) == len(columns):
        print_table(shown)
        return
    rest = [at for at in range(len(columns)) if at not in kept]
    print_with_reasons(shown, [_note(columns, row, rest) for row in rows])


def _kept(
    columns: Sequence[str], rows: Sequence[Sequence[object]], below: Sequence[int]
) -> list[int]:
    """The places of the columns that stay in the table."""
    kept, gone = list(range(len(columns))), 0
    while gone < len(below) and _needed(columns, rows, kept) > out.width:
        kept.remove(below[gone])
        gone += 1
    for at in reversed(below[:gone]):  # a wide one may leave room for narrow ones
        wider = sorted([*kept, at])
        if columns[at] not in WRAPPED and _needed(columns, rows, wider) <= out.width:
            kept = wider
    return kept


def _needed(columns: Sequence[str], rows: Sequence[Sequence[object]], kept: list[int]) -> int:
    """How many columns of the terminal those of the table take."""
    return sum(_width(columns, rows, at) for at in kept) + _BETWEEN * (len(kept) - 1)


def _width(columns: Sequence[str], rows: Sequence[Sequence[object]], at: int) -> int:
    widest = max(len(columns[at]), *(Text.from_markup(str(row[at])).cell_len for row in rows))
    return min(widest, _LEAST_WRAPPED) if columns[at] in WRAPPED else widest


def _note(columns: Sequence[str], row: Sequence[object], rest: Sequence[int]) -> str:
    """'CPU 55%; memory 1.0 GiB / 4.0 GiB', as rich markup; a reason needs no name before it."""
    said = [
        str(row[at]) if columns[at] == "reason" else f"{escape(columns[at])} {row[at]}"
        for at in rest
        if Text.from_markup(str(row[at])).plain not in ("", "-")
    ]
    return "; ".join(said)
