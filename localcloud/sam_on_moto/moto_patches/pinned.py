"""Replaces private parts of moto, and refuses to start when the part it wants is not there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

MOTO_VERSION = "5.2.5"


class MotoChanged(RuntimeError):
    """moto is not the version this code was written against."""


def check_version() -> None:
    """Every seam we hook is private to moto, so another version may not be used untested."""
    import moto

    if moto.__version__ != MOTO_VERSION:
        raise MotoChanged(
            f"moto {moto.__version__} is installed, the local cloud needs exactly {MOTO_VERSION}: "
            f"pip install 'moto=={MOTO_VERSION}'"
        )


def replace(
    owner: Any, name: str, replacement: Any, *, parameters: tuple[str, ...] | None = None
) -> Any:
    """Put `replacement` in place of owner.name and return what was there.

    `parameters` are the names the original must take, in this order.
    Raises MotoChanged when the target is missing or takes other parameters.
    """
    where = f"{getattr(owner, '__module__', '')}.{getattr(owner, '__name__', owner)}.{name}"
    original = getattr(owner, name, None)
    if original is None:
        raise MotoChanged(
            f"moto has no {where} any more; the local cloud was written against moto {MOTO_VERSION}"
        )
    if parameters is not None:
        found = tuple(inspect.signature(original).parameters)
        if found != parameters:
            raise MotoChanged(
                f"{where} takes {found}, not {parameters}; "
                f"the local cloud was written against moto {MOTO_VERSION}"
            )
    setattr(owner, name, replacement)
    return original


def wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Put wrapper(original) in place of owner.name.

    Raises MotoChanged when the target is missing.
    """
    original = replace(owner, name, getattr(owner, name, None))
    setattr(owner, name, wrapper(original))
