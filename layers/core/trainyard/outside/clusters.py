"""The clusters in the table."""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Protocol

from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.domain.notices import Notice
from trainyard.domain.records import Cluster
from trainyard.outside.pages import Page
from trainyard_contracts.events import ClusterHeartbeat, Fact


class Clusters(Protocol):
    """Clusters and their heartbeats."""

    def create(self, cluster: Cluster) -> Cluster:
        """Conditional on no cluster of that name. Raises errors.ClusterExists.

        One that is Deleted, or Failed and gone, may be there: then generation + 1.
        """
        ...

    def get(self, name: str) -> Cluster:
        """Raises errors.ClusterNotFound, errors.RecordUnreadable."""
        ...

    def put(self, cluster: Cluster) -> Cluster:
        """As Runs.put."""
        ...

    def succeed(self, cluster: Cluster, successor: Cluster) -> Cluster:
        """Put the successor in the cluster's place, if that is stored as it is given.

        Nothing that `touch` wrote is left. Raises errors.ConflictError.
        """
        ...

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Cluster]:
        """As Runs.list."""
        ...

    def active(self) -> builtins.list[Cluster]:
        """Every cluster whose status is not Deleted and that this version can read."""
        ...

    def touch(
        self, name: str, *, used_at: datetime | None = None, heartbeat_at: datetime | None = None
    ) -> None:
        """Set last_used_at / last_heartbeat_at without touching `version`; never backwards."""
        ...

    def record(self, name: str, fact: Fact) -> bool:
        """As Runs.record, for facts of the cluster itself."""
        ...

    def facts(self, name: str) -> builtins.list[Fact]: ...

    def tell(self, name: str, notice: Notice) -> bool:
        """People hear of it once, by the notice's id; False if they did already."""
        ...

    def put_heartbeat(self, heartbeat: ClusterHeartbeat) -> None:
        """Keep one heartbeat, with a TTL of 7 days; the same id again changes nothing."""
        ...

    def heartbeats(
        self, name: str, *, since: datetime, until: datetime | None = None, limit: int
    ) -> builtins.list[ClusterHeartbeat]:
        """Newest `limit` of those from `since` to `until` (default: now), oldest first."""
        ...
