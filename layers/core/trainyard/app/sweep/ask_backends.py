"""Each backend is asked by itself, so that one that fails keeps no other from its turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trainyard.domain.errors import TrainyardError
from trainyard.outside.backends import Backend
from trainyard.ports import Ports

T = TypeVar("T")


@dataclass(frozen=True)
class Unanswered:
    """Stands in a list for what could not be asked: a backend, or something in it."""

    name: str
    error: TrainyardError


def ask_each(ports: Ports, question: Callable[[Backend], Sequence[T]]) -> list[T | Unanswered]:
    """What every backend answers, in one list."""
    answers: list[T | Unanswered] = []
    for name, backend in ports.backends.items():
        try:
            answers += question(backend)
        except TrainyardError as error:
            answers.append(Unanswered(name, error))
    return answers
