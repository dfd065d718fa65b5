"""Times as people write them: how far back, how long, when."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

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


#: The furthest that a list looks back.
_LONGEST_DAYS = 3660


def moment(text: str) -> str:
    """Reads '2d', '90m', '2026-11-01' or '2026-11-01T12:00Z', as the API takes a time.

    A date is its midnight here; a time without a zone is the clock's here. It raises BadParameter.
    """
    if (found := _WRITTEN.fullmatch(text)) is not None and found[2]:
        back = timedelta(seconds=min(int(found[1]) * _SECONDS[found[2]], _LONGEST_DAYS * 86400))
        at = datetime.now(timezone.utc) - back
    else:
        at = _written(text)
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _written(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        at.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is no time; give how long ago, such as 90m, 12h or 2d, a date such as "
            "2026-11-01, or a time such as 2026-11-01T12:00Z"
        ) from None
    return at
