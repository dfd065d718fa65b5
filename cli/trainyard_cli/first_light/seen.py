"""What a look saw of an assumption about AWS, and the register of looks."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .world import World

#: not-seen: this run could not show it; the evidence says why.
Verdict = Literal["held", "broken", "not-seen"]
#: In the order in which they come. docs/operations.md says what each proves.
StageName = Literal[
    "account",
    "price",
    "create",
    "ready",
    "command",
    "train",
    "resume",
    "export",
    "teardown",
    "nothing-left",
]


@dataclass(frozen=True)
class Seen:
    """`assumption`: an id of docs/aws-assumptions.md; `evidence`: one line; `remedy`: if broken."""

    assumption: str
    verdict: Verdict
    evidence: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value}


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


def looks() -> list[Look]:
    """Every look, by its file's name and then as it stands there."""
    from . import looks as package

    for module in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return list(_looks)
