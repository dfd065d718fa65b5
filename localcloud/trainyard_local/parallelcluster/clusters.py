"""All clusters of ParallelCluster's on one local cloud, and what may be done to them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from trainyard_local.fsx.service import Fsx
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes.node import Node
from trainyard_local.parallelcluster import roles, updates
from trainyard_local.parallelcluster.cluster import LocalCluster
from trainyard_local.parallelcluster.configuration import read
from trainyard_local.parallelcluster.judging import (
    NAME,
    BadRequest,
    Conflict,
    Finding,
    World,
    findings,
    parsed,
)
from trainyard_local.parallelcluster.settings import Settings
from trainyard_local.slurm.cluster import Ports


class Invalid(Exception):
    """The configuration is refused."""

    def __init__(self, found: list[Finding]) -> None:
        super().__init__("Invalid cluster configuration.")
        self.findings = found


class Missing(LookupError):
    """There is no such cluster."""


class Clusters:
    """By their names."""

    def __init__(
        self, cloud: LocalCloud, settings: Settings, ports: Ports, fsx: Fsx | None = None
    ) -> None:
        self.cloud, self.settings, self.ports, self.fsx = cloud, settings, ports, fsx
        self.lock = threading.RLock()
        self.clusters: dict[str, LocalCluster] = {}

    def find(self, name: str) -> LocalCluster:
        """Raises Missing."""
        with self.lock:
            found = self.clusters.get(name)
        if found is None:
            raise Missing(
                f"Cluster '{name}' does not exist or belongs to an incompatible ParallelCluster "
                "major version."
            )
        return found

    def all(self) -> list[LocalCluster]:
        with self.lock:
            return sorted(self.clusters.values(), key=lambda cluster: cluster.name)

    def instance(self, instance_id: str) -> tuple[LocalCluster, Node] | None:
        """The instance, and whose it is."""
        for cluster in self.all():
            if (node := cluster.nodes.get(instance_id)) is not None:
                return cluster, node
        return None

    def tags_of(self, resource: str) -> Mapping[str, str]:
        """The tags of an instance, for conditions in policies."""
        found = self.instance(resource.rpartition("instance/")[2])
        return found[0].tags if found else {}

    def judge(self, name: str, text: str) -> None:
        """Whether create would take it. Raises BadRequest, Invalid."""
        if not NAME.fullmatch(name):
            raise BadRequest(
                f"Bad Request: '{name}' does not match '^[a-zA-Z][a-zA-Z0-9-]+$' - 'clusterName'"
            )
        with self.lock:
            if name in self.clusters:
                raise BadRequest(f"Bad Request: Cluster {name} already exists")
        self._judge_text(text)

    def _judge_text(self, text: str) -> Mapping[str, Any]:
        cloud = self.cloud
        document = parsed(text, cloud.region)
        has_object = partial(has_object_in, cloud)
        found = findings(
            document, World(cloud.region, partial(roles.has_policy, cloud), has_object)
        )
        if found:
            raise Invalid(found)
        return document

    def create(self, name: str, text: str, *, rollback: bool) -> LocalCluster:
        """Raises BadRequest, Invalid."""
        self.judge(name, text)
        configuration = read(text, parsed(text, self.cloud.region))
        with self.lock:
            if name in self.clusters:
                raise BadRequest(f"Bad Request: Cluster {name} already exists")
            cluster = LocalCluster(
                self.cloud, self.settings, self.ports, name, configuration, rollback, fsx=self.fsx
            )
            self.clusters[name] = cluster
        cluster.in_background(cluster.create)
        return cluster

    def judge_update(self, cluster: LocalCluster, text: str) -> list[updates.Change]:
        """What would change. Raises BadRequest, Conflict, Invalid, updates.Refused."""
        if "IN_PROGRESS" in cluster.stack:
            raise Conflict(f"Cannot execute update while stack is in {cluster.stack} status.")
        document = self._judge_text(text)
        have = parsed(cluster.configuration.text, self.cloud.region)
        return updates.judged(have, document, fleet_stopped=cluster.fleet == "STOPPED")

    def update(self, cluster: LocalCluster, text: str) -> None:
        """Of a judged text."""
        cluster.update(read(text, parsed(text, self.cloud.region)))

    def delete(self, cluster: LocalCluster) -> None:
        """Again and again with the same result. Raises BadRequest."""
        with cluster.lock:
            if cluster.status == "DELETE_IN_PROGRESS":
                return
            if cluster.status == "UPDATE_IN_PROGRESS":
                cluster.end_workers()
                raise BadRequest(
                    f"Bad Request: Cluster {cluster.name} did not delete successfully. Stack "
                    f"[{cluster.name}] cannot be deleted while in status {cluster.stack}"
                )
            cluster.delete(partial(self._forget, cluster))

    def _forget(self, cluster: LocalCluster) -> None:
        with self.lock:
            if self.clusters.get(cluster.name) is cluster:
                del self.clusters[cluster.name]

    def close(self) -> None:
        """End of the local cloud: nothing of any cluster stays."""
        for cluster in self.all():
            cluster.close()
        with self.lock:
            self.clusters.clear()


def has_object_in(cloud: LocalCloud, bucket: str, key: str) -> bool:
    prefix, _, name = key.rpartition("/")
    try:
        return name in cloud.read_prefix(bucket, f"{prefix}/" if prefix else "")
    except FileNotFoundError:
        return False
