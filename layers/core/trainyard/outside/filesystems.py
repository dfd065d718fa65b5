"""The filesystems in the table."""

from __future__ import annotations

import builtins
from typing import Protocol

from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.outside.pages import Page


class Filesystems(Protocol):
    """Filesystems with a life of their own."""

    def create(self, filesystem: Filesystem) -> Filesystem:
        """As Clusters.create. Raises errors.FilesystemExists."""
        ...

    def get(self, name: str) -> Filesystem:
        """Raises errors.FilesystemNotFound, errors.RecordUnreadable."""
        ...

    def put(self, filesystem: Filesystem) -> Filesystem:
        """As Runs.put."""
        ...

    def list(
        self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING
    ) -> Page[Filesystem]:
        """As Runs.list."""
        ...

    def active(self) -> builtins.list[Filesystem]:
        """Every filesystem whose status is not Deleted and that this version can read."""
        ...
