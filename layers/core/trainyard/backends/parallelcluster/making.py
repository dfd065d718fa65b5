"""What a configuration is made of: a spec, and what a deployment adds to every cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trainyard.domain.records import Cluster
from trainyard_contracts import places
from trainyard_contracts.parallelcluster import ParallelClusterSpec

#: Of the bundle: what ParallelCluster runs on each node once it is configured.
NODE_SCRIPT = "parallelcluster_node.sh"
#: Where the controller's agent listens.
LINK_PORT = 7470


@dataclass(frozen=True)
class ParallelClusterSettings:
    """Of a deployment.

    `node_script` is the name of our script in the bundle; '' for clusters without an agent.
    `artifact_bucket` is where ParallelCluster keeps its own files; '' for one that it makes.
    """

    stage: str
    region: str
    account: str
    bucket: str
    event_bus: str
    secret_prefix: str
    partition: str = "aws"
    node_script: str = NODE_SCRIPT
    node_boundary_arn: str = ""
    artifact_bucket: str = ""
    heartbeat_seconds: float = 60.0
    link_port: int = LINK_PORT


@dataclass(frozen=True)
class Making:
    """One generation of a cluster: `tags` has the user's and ours.

    Without `with_ours`, what is asked for has neither our policy nor our script. Neither is there
    before the cluster is made, so a dry run would find them missing.
    """

    spec: ParallelClusterSpec
    generation: int
    tags: Mapping[str, str]
    settings: ParallelClusterSettings
    with_ours: bool = True

    def before_it_is_made(self) -> Making:
        return replace(self, with_ours=False)

    @property
    def bundle(self) -> str:
        """Where the files of its nodes lie, without a slash at its end."""
        prefix = places.lifecycle_prefix(self.spec.name, self.generation)
        return f"s3://{self.settings.bucket}/{prefix}"

    @property
    def node_script(self) -> str:
        """s3://BUCKET/KEY of our script; '' where there is none."""
        if not self.with_ours or not self.settings.node_script:
            return ""
        return f"{self.bundle}/{self.settings.node_script}"


def making_of(cluster: Cluster, settings: ParallelClusterSettings) -> Making:
    """Of the cluster of a record, which has a spec of this backend."""
    spec = cluster.spec
    assert isinstance(spec, ParallelClusterSpec)
    return Making(spec, cluster.generation, cluster.tags(settings.stage), settings)
