"""The runs in the table."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.domain.records import Checkpoint, Run, TimelineEntry
from trainyard.outside.pages import Page
from trainyard_contracts.events import Fact


class Runs(Protocol):
    """Runs, their facts, timeline, checkpoints."""

    def create(self, run: Run, *, idempotency_key: str | None, body_hash: str) -> Run:
        """Store a new run in one conditional write.

        With a known key and the same body hash return the stored run.
        Raises errors.IdempotencyConflict for a known key with another body hash.
        """
        ...

    def by_key(self, idempotency_key: str, body_hash: str, *, at: datetime) -> Run | None:
        """The run that was stored with this key, as it is now.

        None for a key that is new, or expired at that time.
        Raises errors.IdempotencyConflict for a known key with another body hash.
        """
        ...

    def get(self, run_id: str) -> Run:
        """Raises errors.RunNotFound, errors.RecordUnreadable."""
        ...

    def children(self, run_id: str) -> builtins.list[str]:
        """Ids of the runs whose spec names this one in `after`; `create` stores them with these."""
        ...

    def put(self, run: Run, lines: Sequence[TimelineEntry] = ()) -> Run:
        """Write if the stored version equals run.version. Raises errors.ConflictError.

        Returns it with version + 1 and updated_at.
        The timeline lines are written with it or not at all; one whose id is known changes nothing.
        """
        ...

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Run]:
        """Those that are wanted, without what this version cannot read.

        A page may have fewer than `limit` and be followed by another one all the same. Raises
        errors.BadPageToken.
        """
        ...

    def beginning(self, prefix: str, *, at_most: int) -> builtins.list[str]:
        """Ids that begin so, newest first."""
        ...

    def active(self) -> builtins.list[Run]:
        """Every run that is not terminal (sparse index) and that this version can read."""
        ...

    def on_cluster(self, cluster_name: str) -> builtins.list[Run]:
        """Active runs that use the cluster, without what this version cannot read."""
        ...

    def unreadable_on(self, cluster_name: str) -> builtins.list[str]:
        """Ids of active runs that this version cannot read, and that may use the cluster."""
        ...

    def record(self, run_id: str, fact: Fact, message: str) -> bool:
        """Record a fact and its timeline line once, by fact.id; False if it was there already."""
        ...

    def facts(self, run_id: str, attempt: int | None = None) -> builtins.list[Fact]:
        """Facts in order of `at`, then id; those without an attempt are always included."""
        ...

    def note(self, run_id: str, entry: TimelineEntry) -> None:
        """Add a timeline entry; the same id again changes nothing."""
        ...

    def timeline(self, run_id: str, *, limit: int, token: str | None) -> Page[TimelineEntry]:
        """Oldest first."""
        ...

    def put_checkpoint(self, run_id: str, checkpoint: Checkpoint) -> None:
        """Idempotent by (step, attempt), in any order.

        'rejected' wins over 'pruned', and 'pruned' over 'whole'. A pruned one keeps the details of
        the whole one that it was.
        """
        ...

    def checkpoints(self, run_id: str, *, limit: int, token: str | None) -> Page[Checkpoint]:
        """Newest step first."""
        ...
