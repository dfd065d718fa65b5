"""One bar on stderr for what moves bytes; nothing without a terminal, and nothing with --json."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from trainyard_sdk.progress import Told

from .output import err


@contextmanager
def bar(words: str, *, quiet: bool = False) -> Iterator[Told]:
    """A bar that is moved from any thread."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    shown = not quiet and err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=not shown) as progress:
        task = progress.add_task(words, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
