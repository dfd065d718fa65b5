"""How logs of several ranks are shown in one text: as `tail` shows several files.

It imports the standard library only, as `commands.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: The line above a rank's lines, where a text has those of several.
HEADING = re.compile(r"^==> (?:rank [0-9]{1,7}|program) on [A-Za-z0-9][A-Za-z0-9.-]{0,254} <==$")


def heading(node: str, rank: int | None) -> str:
    """The heading of one rank's lines, or of a program's that runs once on its node."""
    return f"==> {'program' if rank is None else f'rank {rank}'} on {node} <=="


def joined(parts: Iterable[tuple[str, str]]) -> str:
    """One text of headings with the lines below each; a log without lines is left out."""
    return "\n\n".join(f"{head}\n{text}" for head, text in parts if text)


def parted(text: str) -> Iterator[tuple[str, list[str]]]:
    """The headings of such a text, '' for lines before the first, and the lines of each."""
    head, lines = "", list[str]()
    for line in text.splitlines():
        if not HEADING.match(line):
            lines.append(line)
            continue
        if lines and not lines[-1]:
            lines.pop()  # the empty line before a heading
        if head or lines:
            yield head, lines
        head, lines = line, []
    if head or lines:
        yield head, lines
