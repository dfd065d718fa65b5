"""The filesystems that AWS has: to make, to look at, to export, to delete."""

from __future__ import annotations

import builtins
from typing import Protocol

from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.filesystems import TaskEnd
from trainyard.domain.records import Cluster
from trainyard.outside.seen_clusters import BackendRequest
from trainyard.outside.seen_filesystems import SeenFilesystem, SeenLink


class Lustre(Protocol):
    """FSx for Lustre.

    Each method that changes something may be repeated, and changes nothing then. AWS's refusals are
    errors.BackendRejected; errors.ConflictError is what passes by itself.
    """

    def plan(self, filesystem: Filesystem) -> builtins.list[BackendRequest]:
        """The exact requests of its creation, with nothing sent."""
        ...

    def create(self, filesystem: Filesystem) -> SeenFilesystem: ...

    def find(self, filesystem: Filesystem) -> SeenFilesystem | None:
        """The one that was made for this very record, by its tags."""
        ...

    def describe(self, fsx_id: str) -> SeenFilesystem | None:
        """None = does not exist."""
        ...

    def link(self, filesystem: Filesystem) -> str:
        """Link it to its repository and import what is there. Returns the link's id."""
        ...

    def linked(self, association_id: str) -> SeenLink | None: ...

    def exports_itself(self, filesystem: Filesystem, on: bool) -> None:
        """Whether FSx exports changes by itself; it cannot while an export runs."""
        ...

    def export(self, filesystem: Filesystem, number: int) -> str:
        """Begin to export what changed. Returns the task's id."""
        ...

    def task(self, task_id: str) -> TaskEnd | None: ...

    def busy(self, fsx_id: str) -> str:
        """The id of a task that runs on it; '' if none does."""
        ...

    def delete(self, filesystem: Filesystem) -> None: ...

    def tagged(self) -> builtins.list[SeenFilesystem]:
        """Filesystems that carry this deployment's tag."""
        ...

    def made_with(self, cluster: Cluster) -> SeenFilesystem | None:
        """The one that the backend made with this very cluster, by the tags that it handed on."""
        ...

    def link_of(self, fsx_id: str) -> str:
        """The id of its link to the bucket that all of it is in; '' while there is none."""
        ...

    def used_bytes(self, fsx_id: str) -> int | None:
        """What its files take, compressed; None where CloudWatch does not say."""
        ...
