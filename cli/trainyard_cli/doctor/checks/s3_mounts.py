"""Are the buckets there that every node mounts, where nodes can read them?"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_contracts.slurm_cluster import SlurmCluster

from .. import buckets
from ..account import Account
from ..findings import Finding
from ..scope import Scope


def check(account: Account, scope: Scope) -> Iterator[Finding]:
    if not isinstance(scope.cluster, SlurmCluster):
        return
    for number, mount in enumerate(scope.cluster.s3_mounts):
        field = scope.field(f"s3Mounts.{number}.bucket")
        yield from buckets.readable(account, "s3_mounts", field, mount.bucket)
