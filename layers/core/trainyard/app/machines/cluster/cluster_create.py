"""Ask the backend for the cluster, with a key of its own for its agents."""

from __future__ import annotations

from typing import Any

from trainyard.app.clusters.cluster_tries import give_up, owner_is_over
from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.machines.inputs import StepInput
from trainyard.app.runs.tell_price import note_price
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
    if _nobody_waits(ports, cluster):
        start_teardown(ports, give_up(ports, cluster))
        return {"created": False, "reason": "Nobody waits for it any more."}
    ports.secrets.ensure(places.agent_key_secret(ports.config.secret_prefix, cluster.name))
    if not cluster.create_requested:
        cluster = _put(ports, cluster, create_requested=True)
    note_price(ports, cluster)
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


def _nobody_waits(ports: Ports, cluster: Cluster) -> bool:
    """The run of a further try may have ended while that waited for its turn."""
    if cluster.not_before is None or not owner_is_over(ports, cluster):
        return False
    return blocker_of(ports, cluster) is None


def _put(ports: Ports, cluster: Cluster, **update: Any) -> Cluster:
    return ports.clusters.put(cluster.changed(**update))
