"""Buckets that a cluster's spec names and that S3 does not have: said before nodes are paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.inputs import S3Prefix


def warnings(ports: Ports, spec: ClusterBase) -> Iterator[str]:
    """One for each bucket that is not there.

    A bucket that this stack may not see is the nodes' affair, and one that S3 does not answer for
    is not known to be missing. No refusal: it may be made before the nodes need it.
    """
    for bucket, fields in _named(spec).items():
        if ports.sources.look(S3Prefix.of(f"s3://{bucket}/")) == "no-bucket":
            yield (
                f"{fields}: S3 has no bucket '{bucket}'; make it before the cluster is made, or "
                "correct the name. Nodes that need it would fail."
            )


def _named(spec: ClusterBase) -> Mapping[str, str]:
    """The first field that names each bucket."""
    found: dict[str, str] = {}
    for field, bucket in spec.read_buckets().items():
        found.setdefault(bucket, field)
    return found
