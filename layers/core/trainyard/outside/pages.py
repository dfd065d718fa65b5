"""One page of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list.

    `next_token` is opaque and bound to its query (another query's token: errors.BadPageToken).
    """

    items: list[T]
    next_token: str | None = None
