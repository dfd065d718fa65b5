"""The items of a cluster in the table."""

from __future__ import annotations

from datetime import datetime

from trainyard.aws import listing, notices
from trainyard.aws.items import Item, Value, number, pack, record_of, stamp, text, unstamp
from trainyard.domain.notices import Notice
from trainyard.domain.records import Cluster

ACTIVE, DELETED = "clusters#active", "clusters#deleted"


def pk_of(name: str) -> str:
    return f"cluster#{name}"


def key_of(name: str) -> Item:
    return {"pk": text(pk_of(name)), "sk": text("cluster")}


def notice_item(name: str, notice: Notice) -> Item:
    return {
        "pk": text(pk_of(name)),
        "sk": text(f"notice#{notice.id}"),
        **notices.attributes(notice),
    }


def attributes_of(cluster: Cluster) -> dict[str, Value]:
    return {
        "doc": pack(cluster),
        "version": number(cluster.version),
        "gsi1pk": text(DELETED if cluster.status == "Deleted" else ACTIVE),
        "gsi1sk": text(f"{stamp(cluster.created_at)}#{cluster.name}"),
        **listing.attributes(
            name=cluster.name,
            status=cluster.status,
            cluster=cluster.name,
            labels=cluster.labels,
            created_by=cluster.created_by,
        ),
    }


def is_gone(cluster: Cluster) -> bool:
    """Nothing of it exists in AWS any more, so its name is free."""
    return cluster.status == "Deleted" or (cluster.status == "Failed" and cluster.arn is None)


def next_generation(cluster: Cluster, before: Cluster) -> Cluster:
    return cluster.changed(generation=before.generation + 1, version=before.version + 1)


def cluster_of(item: Item) -> Cluster:
    """The document, with the times that `touch` writes beside it laid over."""
    cluster = record_of(Cluster, item)
    return cluster.changed(
        last_used_at=_later(cluster.last_used_at, item.get("lastUsedAt")),
        last_heartbeat_at=_later(cluster.last_heartbeat_at, item.get("lastHeartbeatAt")),
    )


def _later(written: datetime | None, touched: Value | None) -> datetime | None:
    times = [at for at in (written, unstamp(touched["S"]) if touched else None) if at is not None]
    return max(times, default=None)
