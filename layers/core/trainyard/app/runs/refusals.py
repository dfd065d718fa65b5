"""What a dry run would be refused for: shown, and not raised, so that all of it is seen at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from trainyard.domain.errors import TrainyardError

T = TypeVar("T")


class Refusal(NamedTuple):
    """`of`: the run's name; '' of the whole."""

    of: str
    code: str
    detail: str
    next_step: str


def tried(of: str, act: Callable[[], T], refused: list[Refusal]) -> T | None:
    """What the act gives; None where it is refused, which is noted.

    Raises what may succeed when it is repeated.
    """
    try:
        return act()
    except TrainyardError as error:
        if error.retryable:
            raise
        refused.append(noted(of, error))
        return None


def noted(of: str, error: TrainyardError) -> Refusal:
    return Refusal(of, error.code, error.detail, error.next_step)
