"""What people ask of clusters that somebody else made."""

from __future__ import annotations

from trainyard.app.clusters.adopt_cluster import adopt_cluster, release_cluster
from trainyard.app.people.audited import Audited
from trainyard.app.people.ownership import load
from trainyard.domain.records import Cluster
from trainyard_contracts.adopting import AdoptSpec


class OfAdopted(Audited):
    """Adopt and release."""

    def adopt_cluster(self, spec: AdoptSpec, *, idempotency_key: str | None) -> Cluster:
        return self._made(
            "cluster.adopt",
            f"cluster/{spec.named}",
            lambda: adopt_cluster(self._ports, spec, self._own(idempotency_key), by=self._by),
            lambda cluster: f"cluster/{cluster.name}",
        )

    def release_cluster(self, name: str, *, force: bool, reason: str = "") -> Cluster:
        return self._changed(
            "cluster.release",
            load(self._ports, "cluster", name),
            lambda: release_cluster(self._ports, name, force=force, by=self._by),
            reason,
        )
