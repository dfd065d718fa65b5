"""Ask the backend for the cluster, with a key of its own for its agents."""

from __future__ import annotations

from typing import Any

from trainyard.app.machines.inputs import StepInput
from trainyard.app.runs.tell_tries import tell_try
from trainyard.domain.errors import BackendRejected, ClusterExists
from trainyard.domain.problems import problem
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts import places


def cluster_create(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Create the cluster.

    The backend is idempotent by name: repeating repairs a crash between the call and its record.
    """
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.status != "Pending" or cluster.generation != given.generation:
        return {"created": False}
    tell_try(ports, cluster)
    if cluster.not_before is not None and ports.clock.now() < cluster.not_before:
        return {"created": False, "reason": "Its turn has not come."}
    ports.secrets.ensure(places.agent_key_secret(ports.config.secret_prefix, cluster.name))
    if not cluster.create_requested:
        cluster = _put(ports, cluster, create_requested=True)
    try:
        arn = _offered(ports, cluster) or ports.backend(cluster).create(cluster)
    except (BackendRejected, ClusterExists) as refused:
        code = refused.code if isinstance(refused, BackendRejected) else "cluster-failed"
        _put(ports, cluster, problem=problem(code, refused.detail))
        return {"created": False, "reason": refused.detail[:500]}
    _put(ports, cluster, status="Creating", arn=arn)
    return {"created": True, "arn": arn}


def _offered(ports: Ports, cluster: Cluster) -> str | None:
    """The ARN of a cluster that others made: only what its nodes fetch is made."""
    if cluster.adoption is None:
        return None
    adoptions = ports.backend(cluster).adoptions
    assert adoptions is not None, cluster.backend  # else no such record was stored
    adoptions.offer(cluster)
    return cluster.arn


def _put(ports: Ports, cluster: Cluster, **update: Any) -> Cluster:
    return ports.clusters.put(cluster.changed(**update))
