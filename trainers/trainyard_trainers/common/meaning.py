"""What a key of a configuration means: declared beside its type, so that --help can say it, and a
resume knows which keys may differ from what the checkpoint was trained with.

batch: Annotated[int, at_least(1), Meaning("sequences of a step, of all ranks together")] = 8
"""

from __future__ import annotations

import textwrap
import typing
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Meaning:
    """`free`: a run may resume with another value; it changes how the training is done (where files
    lie, on what ranks it runs, what is printed), and not what is trained.
    """

    text: str
    free: bool = False


def meanings(kind: type[Any]) -> dict[str, Meaning]:
    """Of the fields that have one, by their names."""
    return {
        name: extra
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
        for extra in getattr(hint, "__metadata__", ())
        if isinstance(extra, Meaning)
    }


def below(kind: type[Any], name: str) -> str:
    """The lines for --help below a field's name; "" where nothing is known of it."""
    known = meanings(kind).get(name)
    if known is None:
        return ""
    indent = " " * 8
    return "\n" + textwrap.fill(
        known.text, 92, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
