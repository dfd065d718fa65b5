"""What a configuration is made of: a spec, and what a deployment adds to every cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainyard_contracts.parallelcluster import ParallelClusterSpec


@dataclass(frozen=True)
class ParallelClusterSettings:
    """Of a deployment.

    `node_script` is s3://BUCKET/KEY of a script of ours; '' as long as there is none.
    `artifact_bucket` is where ParallelCluster keeps its own files; '' for one that it makes.
    """

    stage: str
    region: str
    account: str
    bucket: str
    event_bus: str
    secret_prefix: str
    partition: str = "aws"
    node_script: str = ""
    node_boundary_arn: str = ""
    artifact_bucket: str = ""


@dataclass(frozen=True)
class Making:
    """One generation of a cluster: `tags` has the user's and ours."""

    spec: ParallelClusterSpec
    generation: int
    tags: Mapping[str, str]
    settings: ParallelClusterSettings
