"""Clusters, their facts and heartbeats in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins
from datetime import datetime, timedelta

from trainyard.aws import listing
from trainyard.aws.cluster_items import (
    ACTIVE,
    DELETED,
    attributes_of,
    cluster_of,
    is_gone,
    key_of,
    next_generation,
    notice_item,
    pk_of,
)
from trainyard.aws.facts import fact_item, names_item, read_facts, written
from trainyard.aws.items import number, pack, readable, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.domain.notices import Notice, of_cluster
from trainyard.domain.records import Cluster
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page
from trainyard_contracts.events import ClusterHeartbeat, Fact

HEARTBEAT_LIFETIME = timedelta(days=7)


class TableClusters:
    """The port `Clusters` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, cluster: Cluster) -> Cluster:
        item = self._table.get(pk_of(cluster.name), "cluster")
        before = None if item is None else cluster_of(item)
        if before is not None and not is_gone(before):
            raise errors.ClusterExists(
                f"a cluster named '{cluster.name}' exists; its status is {before.status}"
            )
        made = cluster if before is None else next_generation(cluster, before)
        condition, values = "attribute_not_exists(pk)", None
        if before is not None:
            # The version goes on counting, so a straggler of the old generation never writes
            # the new one.
            condition, values = "version = :before", {":before": number(before.version)}
        if not self._table.put(
            {**key_of(made.name), **attributes_of(made)}, condition=condition, values=values
        ):
            raise errors.ClusterExists(
                f"a cluster named '{cluster.name}' was created at the same moment"
            )
        return made

    def get(self, name: str) -> Cluster:
        item = self._table.get(pk_of(name), "cluster")
        if item is None:
            raise errors.ClusterNotFound.of(name)
        return cluster_of(item)

    def put(self, cluster: Cluster) -> Cluster:
        after = cluster.changed(version=cluster.version + 1, updated_at=self._clock.now())
        attributes = attributes_of(after)
        expression = "SET " + ", ".join(f"#{name} = :{name}" for name in attributes)
        values = {f":{name}": value for name, value in attributes.items()} | {
            ":before": number(cluster.version)
        }
        write = self._table.change_if(
            pk_of(cluster.name),
            "cluster",
            expression,
            condition="version = :before",
            values=values,
            names={f"#{name}": name for name in attributes},
        )
        notice = of_cluster(after)
        told = [] if notice is None else [self._table.new(notice_item(cluster.name, notice))]
        failed = self._table.transact(write, *told)
        if failed == [1]:  # people have heard of it already
            failed = self._table.transact(write)
        if failed:
            raise errors.ConflictError(
                f"cluster {cluster.name} was changed by someone else since version "
                f"{cluster.version}"
            )
        return after

    def succeed(self, cluster: Cluster, successor: Cluster) -> Cluster:
        item = {**key_of(successor.name), **attributes_of(successor)}
        values = {":before": number(cluster.version)}
        if not self._table.put(item, condition="version = :before", values=values):
            raise errors.ConflictError(f"cluster {cluster.name} was changed by someone else")
        return successor

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Cluster]:
        partitions = [
            *([ACTIVE] if wanted.statuses != {"Deleted"} else []),
            *([DELETED] if not wanted.statuses or "Deleted" in wanted.statuses else []),
        ]
        return listing.search(self._table, partitions, cluster_of, wanted, limit=limit, token=token)

    def active(self) -> builtins.list[Cluster]:
        clusters = readable(cluster_of, self._table.listed(ACTIVE))
        return [cluster for _, cluster in clusters if cluster.status != "Deleted"]

    def touch(
        self, name: str, *, used_at: datetime | None = None, heartbeat_at: datetime | None = None
    ) -> None:
        for attribute, at in (("lastUsedAt", used_at), ("lastHeartbeatAt", heartbeat_at)):
            if at is not None:
                forwards = (
                    f"attribute_exists(pk) AND (attribute_not_exists({attribute}) OR "
                    f"{attribute} < :at)"
                )
                self._table.update(
                    pk_of(name),
                    "cluster",
                    f"SET {attribute} = :at",
                    condition=forwards,
                    values={":at": text(stamp(at))},
                )

    def record(self, name: str, fact: Fact) -> bool:
        pk, (stored, names) = pk_of(name), written(fact)
        if names is None:
            return self._table.put(fact_item(pk, stored), condition="attribute_not_exists(pk)")
        return not self._table.transact(
            self._table.new(fact_item(pk, stored)),
            self._table.always(names_item(pk, fact.id, names)),
        )

    def facts(self, name: str) -> builtins.list[Fact]:
        return read_facts(self._table, pk_of(name))

    def tell(self, name: str, notice: Notice) -> bool:
        item = notice_item(name, notice)
        return self._table.put(item, condition="attribute_not_exists(pk)")

    def put_heartbeat(self, heartbeat: ClusterHeartbeat) -> None:
        item = {
            "pk": text(f"beat#{heartbeat.cluster_name}"),
            "sk": text(f"{stamp(heartbeat.at)}#{heartbeat.id}"),
            "doc": pack(heartbeat),
            "expiresAt": number(int((heartbeat.at + HEARTBEAT_LIFETIME).timestamp())),
        }
        self._table.put(item, condition="attribute_not_exists(pk)")

    def heartbeats(
        self, name: str, *, since: datetime, until: datetime | None = None, limit: int
    ) -> builtins.list[ClusterHeartbeat]:
        last = "9" if until is None else f"{stamp(until)}#~"
        newest = self._table.between(f"beat#{name}", stamp(since), last, limit=limit)
        return [record_of(ClusterHeartbeat, item) for item in reversed(newest)]
