"""Directories of runs whose nodes share no filesystem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Directory:
    """Of a run whose nodes share no filesystem, in the data bucket."""

    cluster: str
    run_id: str

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.run_id}"


class Directories(Protocol):
    """The directories of runs that are in the data bucket."""

    def clusters(self) -> Sequence[str]:
        """The clusters whose runs have any."""
        ...

    def of(self, cluster: str) -> Sequence[Directory]: ...

    def files(self, directory: Directory) -> Mapping[str, int]:
        """What an export may take of it: sizes by path."""
        ...

    def delete(self, directory: Directory, paths: Sequence[str]) -> None:
        """In this order."""
        ...
