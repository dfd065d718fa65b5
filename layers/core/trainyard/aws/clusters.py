"""Clusters, their facts and heartbeats in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins
from datetime import datetime, timedelta

from trainyard.aws import listing, notices
from trainyard.aws.facts import fact_item, names_item, read_facts, written
from trainyard.aws.items import Item, Value, number, pack, readable, record_of, stamp, text, unstamp
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.domain.notices import Notice, of_cluster
from trainyard.domain.records import Cluster
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page
from trainyard_contracts.events import ClusterHeartbeat, Fact

HEARTBEAT_LIFETIME = timedelta(days=7)
_ACTIVE, _DELETED = "clusters#active", "clusters#deleted"


class TableClusters:
    """The port `Clusters` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, cluster: Cluster) -> Cluster:
        item = self._table.get(_pk(cluster.name), "cluster")
        before = None if item is None else _cluster(item)
        if before is not None and not _gone(before):
            raise errors.ClusterExists(
                f"a cluster named '{cluster.name}' exists; its status is {before.status}"
            )
        made = cluster if before is None else _next_generation(cluster, before)
        condition, values = "attribute_not_exists(pk)", None
        if before is not None:
            # The version goes on counting, so a straggler of the old generation never writes
            # the new one.
            condition, values = "version = :before", {":before": number(before.version)}
        if not self._table.put(
            {**_key(made.name), **_attributes(made)}, condition=condition, values=values
        ):
            raise errors.ClusterExists(
                f"a cluster named '{cluster.name}' was created at the same moment"
            )
        return made

    def get(self, name: str) -> Cluster:
        item = self._table.get(_pk(name), "cluster")
        if item is None:
            raise errors.ClusterNotFound.of(name)
        return _cluster(item)

    def put(self, cluster: Cluster) -> Cluster:
        after = cluster.changed(version=cluster.version + 1, updated_at=self._clock.now())
        attributes = _attributes(after)
        expression = "SET " + ", ".join(f"#{name} = :{name}" for name in attributes)
        values = {f":{name}": value for name, value in attributes.items()} | {
            ":before": number(cluster.version)
        }
        write = self._table.change_if(
            _pk(cluster.name),
            "cluster",
            expression,
            condition="version = :before",
            values=values,
            names={f"#{name}": name for name in attributes},
        )
        notice = of_cluster(after)
        told = [] if notice is None else [self._table.new(_notice_item(cluster.name, notice))]
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
        item = {**_key(successor.name), **_attributes(successor)}
        values = {":before": number(cluster.version)}
        if not self._table.put(item, condition="version = :before", values=values):
            raise errors.ConflictError(f"cluster {cluster.name} was changed by someone else")
        return successor

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Cluster]:
        partitions = [
            *([_ACTIVE] if wanted.statuses != {"Deleted"} else []),
            *([_DELETED] if not wanted.statuses or "Deleted" in wanted.statuses else []),
        ]
        return listing.search(self._table, partitions, _cluster, wanted, limit=limit, token=token)

    def active(self) -> builtins.list[Cluster]:
        clusters = readable(_cluster, self._table.listed(_ACTIVE))
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
                    _pk(name),
                    "cluster",
                    f"SET {attribute} = :at",
                    condition=forwards,
                    values={":at": text(stamp(at))},
                )

    def record(self, name: str, fact: Fact) -> bool:
        pk, (stored, names) = _pk(name), written(fact)
        if names is None:
            return self._table.put(fact_item(pk, stored), condition="attribute_not_exists(pk)")
        return not self._table.transact(
            self._table.new(fact_item(pk, stored)),
            self._table.always(names_item(pk, fact.id, names)),
        )

    def facts(self, name: str) -> builtins.list[Fact]:
        return read_facts(self._table, _pk(name))

    def tell(self, name: str, notice: Notice) -> bool:
        item = _notice_item(name, notice)
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


def _pk(name: str) -> str:
    return f"cluster#{name}"


def _key(name: str) -> Item:
    return {"pk": text(_pk(name)), "sk": text("cluster")}


def _notice_item(name: str, notice: Notice) -> Item:
    return {
        "pk": text(_pk(name)),
        "sk": text(f"notice#{notice.id}"),
        **notices.attributes(notice),
    }


def _attributes(cluster: Cluster) -> dict[str, Value]:
    return {
        "doc": pack(cluster),
        "version": number(cluster.version),
        "gsi1pk": text(_DELETED if cluster.status == "Deleted" else _ACTIVE),
        "gsi1sk": text(f"{stamp(cluster.created_at)}#{cluster.name}"),
        **listing.attributes(
            name=cluster.name,
            status=cluster.status,
            cluster=cluster.name,
            labels=cluster.labels,
            created_by=cluster.created_by,
        ),
    }


def _gone(cluster: Cluster) -> bool:
    """Nothing of it exists in AWS any more, so its name is free."""
    return cluster.status == "Deleted" or (cluster.status == "Failed" and cluster.arn is None)


def _next_generation(cluster: Cluster, before: Cluster) -> Cluster:
    return cluster.changed(generation=before.generation + 1, version=before.version + 1)


def _cluster(item: Item) -> Cluster:
    """The document, with the times that `touch` writes beside it laid over."""
    cluster = record_of(Cluster, item)
    return cluster.changed(
        last_used_at=_later(cluster.last_used_at, item.get("lastUsedAt")),
        last_heartbeat_at=_later(cluster.last_heartbeat_at, item.get("lastHeartbeatAt")),
    )


def _later(written: datetime | None, touched: Value | None) -> datetime | None:
    times = [at for at in (written, unstamp(touched["S"]) if touched else None) if at is not None]
    return max(times, default=None)
