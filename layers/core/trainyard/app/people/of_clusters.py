"""What people ask of clusters."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.app.clusters.change_cluster import start_fleet, stop_fleet, update_cluster
from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.clusters.keep_cluster import keep_cluster
from trainyard.app.clusters.label_cluster import label_cluster
from trainyard.app.people.audited import Audited
from trainyard.app.people.ownership import load
from trainyard.domain.records import Cluster
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.sharing import SharingSpec


class OfClusters(Audited):
    """Create, update, label, keep, stop, start and delete."""

    def create_cluster(self, spec: ClusterSpec, *, idempotency_key: str | None) -> Cluster:
        return self._made(
            "cluster.create",
            f"cluster/{spec.name}",
            lambda: create_cluster(
                self._ports, spec, idempotency_key=self._own(idempotency_key), by=self._by
            ),
            lambda cluster: f"cluster/{cluster.name}",
        )

    def update_cluster(self, name: str, spec: ClusterSpec) -> Cluster:
        return self._changed(
            "cluster.update",
            load(self._ports, "cluster", name),
            lambda: update_cluster(self._ports, name, spec, by=self._by),
        )

    def label_cluster(
        self,
        name: str,
        changes: Mapping[str, str | None],
        *,
        sharing: SharingSpec | None = None,
        version: int | None,
    ) -> Cluster:
        return self._changed(
            "cluster.label" if sharing is None else "cluster.sharing",
            load(self._ports, "cluster", name),
            lambda: label_cluster(self._ports, name, changes, sharing=sharing, version=version),
        )

    def keep_cluster(self, name: str, *, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.keep",
            load(self._ports, "cluster", name),
            lambda: keep_cluster(self._ports, name),
            reason,
        )

    def stop_fleet(self, name: str, *, force: bool, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.stop",
            load(self._ports, "cluster", name),
            lambda: stop_fleet(self._ports, name, force=force, by=self._by),
            reason,
        )

    def start_fleet(self, name: str) -> Cluster:
        return self._changed(
            "cluster.start",
            load(self._ports, "cluster", name),
            lambda: start_fleet(self._ports, name, by=self._by),
        )

    def delete_cluster(self, name: str, *, force: bool, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.delete",
            load(self._ports, "cluster", name),
            lambda: delete_cluster(self._ports, name, force=force, by=self._by),
            reason,
        )
