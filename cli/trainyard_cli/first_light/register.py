"""The register of looks: each with its assumption, and the stages after which it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .stage_names import StageName
from .verdicts import Seen
from .world import World


@dataclass(frozen=True)
class Look:
    """Made by @look. It is asked after each of its stages, and when that stage failed."""

    assumption: str
    after: tuple[StageName, ...]
    see: Callable[[World], Seen]


_looks: list[Look] = []


def look(
    assumption: str, *, after: StageName | tuple[StageName, ...]
) -> Callable[[Callable[[World], Seen]], Callable[[World], Seen]]:
    """Register the function as the look at this assumption after this stage (or these)."""

    def register(see: Callable[[World], Seen]) -> Callable[[World], Seen]:
        _looks.append(Look(assumption, (after,) if isinstance(after, str) else after, see))
        return see

    return register


def registered() -> list[Look]:
    """Those of the files that are imported so far."""
    return list(_looks)
