"""Record what happened, once, and wake the machine that waits for it; nothing else.

So nothing races.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from trainyard.app.facts.backend_events import record_backend_event
from trainyard.app.facts.heartbeats import record_heartbeat
from trainyard.app.facts.recorded import Recorded, dropped, malformed
from trainyard.app.facts.state_events import record_state
from trainyard.domain.errors import ClusterNotFound
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.events import SOURCE, ClusterHeartbeat, parse_agent_event
from trainyard_contracts.signatures import is_signed


def record_fact(ports: Ports, envelope: Mapping[str, Any]) -> Recorded:
    """Record one EventBridge event.

    Malformed, foreign or late events are dropped with a reason, never raised.
    """
    if envelope.get("source") == SOURCE:
        return _agent_event(ports, envelope)
    for name, backend in ports.backends.items():
        read = backend.read_event(envelope, ports.clock.now())
        if read is not None:
            return record_backend_event(ports, name, str(envelope.get("detail-type"))[:100], read)
    return Recorded("dropped", f"source {str(envelope.get('source'))[:100]!r} is not one of ours")


def _agent_event(ports: Ports, envelope: Mapping[str, Any]) -> Recorded:
    kind = str(envelope.get("detail-type"))[:100]
    try:
        event = parse_agent_event(kind, envelope["detail"])
    except KeyError:
        return Recorded("dropped", f"unknown detail-type {kind!r} or no detail", kind)
    except ValidationError as error:
        return Recorded("dropped", malformed(error.errors()), kind)
    try:
        cluster = ports.clusters.get(event.cluster_name)
    except ClusterNotFound:
        return dropped(event, "no such cluster")
    if cluster.arn is not None and event.cluster_arn != cluster.arn:
        return dropped(event, "it is from another cluster of this name")
    if cluster.status == "Deleted":
        if isinstance(event, ClusterHeartbeat):
            ports.clusters.put_heartbeat(event)  # what still speaks is no orphan
        return dropped(event, "the cluster is deleted")
    if refused := _unbelieved(ports, cluster, kind, envelope["detail"]):
        return dropped(event, refused)
    if isinstance(event, ClusterHeartbeat):
        return record_heartbeat(ports, cluster, event)
    return record_state(ports, cluster, event)


def _unbelieved(ports: Ports, cluster: Cluster, kind: str, detail: Mapping[str, Any]) -> str:
    """'' if the cluster's own agent sent this event, or why we do not believe it.

    Every node of every cluster may put events on the bus, so only a sender with the cluster's key
    speaks for it. A cluster that was made before agents signed is believed unsigned. The key is
    looked up again once, because an earlier cluster of this name had another key.
    """
    if not cluster.signs_events:
        return ""
    if "signature" not in detail:
        return "it is not signed"
    name = places.agent_key_secret(ports.config.secret_prefix, cluster.name)
    for fresh in (False, True):
        key = ports.secrets.read(name, fresh=fresh)
        if key is not None and is_signed(kind, detail, key.encode()):
            return ""
    return "its signature is not the cluster's" if key else "its cluster has no key"
