"""How far back a command looks, as people write it."""

from __future__ import annotations

import re
from collections.abc import Callable

import typer

_WRITTEN = re.compile(r"([0-9]{1,9})([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(most: int) -> Callable[[str | int], int]:
    """Reads '600', '90s', '10m', '2h' or '1d': 1 to `most` seconds. It raises BadParameter."""

    def read(text: str | int) -> int:  # a default is a number
        found = _WRITTEN.fullmatch(str(text))
        if found is None:
            raise typer.BadParameter(
                f"{text!r} is no time; give seconds, or a time such as 90s, 10m, 2h or 1d"
            )
        given = int(found[1]) * _SECONDS[found[2]]
        if not 1 <= given <= most:
            raise typer.BadParameter(f"{text!r} is not in the range 1s to {most // 86400}d")
        return given

    return read
