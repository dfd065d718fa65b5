"""The local cloud's own package, which is optional, and what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from ..problems import CliError, Conflict, InvalidInput

RECORDS_GONE = (
    "Its server was killed: the records of its runs and clusters, and what was exported, were "
    "in its memory and are gone. "
    "Submit the runs again after `trainyard local up`."
)


def control_package() -> ModuleType:
    return loaded("control")


def loaded(name: str) -> ModuleType:
    """A module of the local cloud's package, which is optional: calls to AWS do not need it."""
    try:
        return import_module(f"trainyard_local.{name}")
    except ImportError as error:
        raise CliError(
            "The local cloud is not installed",
            str(error),
            "Run make setup in a clone of Trainyard, or: pip install 'trainyard[local]'",
        ) from error


def said() -> contextlib.AbstractContextManager[None]:
    """The local cloud's own errors within it become this command's errors."""
    return told(control_package())


@contextlib.contextmanager
def told(control: ModuleType) -> Iterator[None]:
    """Turn the local cloud's own errors into this command's errors."""
    try:
        yield
    except control.InTheWay as error:
        raise Conflict(
            "Something is in the local cloud's way", error.message, error.remedy
        ) from error
    except control.Unusable as error:
        raise InvalidInput(
            "The local cloud cannot be made of this", error.message, error.remedy
        ) from error
    except control.ControlError as error:
        raise CliError("The local cloud says no", error.message, error.remedy) from error
