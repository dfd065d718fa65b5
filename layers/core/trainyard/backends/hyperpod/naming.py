"""Names and ARNs of HyperPod's clusters in this stack."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.domain import names
from trainyard.domain.records import Cluster
from trainyard_contracts import places

LINK_PORT = 7470


@dataclass(frozen=True)
class HyperPodSettings:
    """What a deployment adds to every cluster."""

    stage: str
    region: str
    bucket: str
    event_bus: str
    secret_prefix: str
    node_boundary_arn: str
    heartbeat_seconds: float
    default_subnet_ids: tuple[str, ...] = ()
    default_security_group_ids: tuple[str, ...] = ()
    link_port: int = LINK_PORT


def lifecycle_prefix(cluster: Cluster) -> str:
    """Where this generation's lifecycle bundle lies in the data bucket."""
    return places.lifecycle_prefix(cluster.name, cluster.generation)


def account_arn(settings: HyperPodSettings, service: str, region: str | None = None) -> str:
    """The beginning of an ARN of this deployment's account, up to its resource."""
    _, partition, _, _, account, _ = settings.node_boundary_arn.split(":", 5)
    return f"arn:{partition}:{service}:{settings.region if region is None else region}:{account}"


def role_arn(cluster: Cluster, settings: HyperPodSettings) -> str:
    """The role of this generation's nodes, known before it is made."""
    path = names.node_role_path(settings.stage, cluster.name, cluster.generation)
    name = names.node_role(settings.stage, cluster.name, cluster.generation)
    return f"{account_arn(settings, 'iam', '')}:role{path}{name}"
