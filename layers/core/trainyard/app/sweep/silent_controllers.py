"""Controllers that say nothing any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from trainyard.app.facts.situation import silent_since
from trainyard.app.facts.tell_runs import tell_runs
from trainyard.app.sweep.swept import Swept
from trainyard.domain.cluster_facts import ClusterLost
from trainyard.domain.records import Cluster, TimelineEntry
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.ports import Ports

GONE = frozenset({BackendStatus.FAILED, BackendStatus.DELETING})


def silent_controller(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A controller that sends no heartbeat is lost only if the backend says so too.

    Unreachable is not dead. Each silence is recorded once, under the time of the last heartbeat
    before it. So a controller that came back may be lost again.
    """
    last = silent_since(ports, cluster)
    if last is None:
        return
    silence = f"{cluster.name}-{cluster.generation}-{last:%Y%m%dT%H%M%S%f}"
    reason = _backend_says(ports, cluster)
    if reason is None:
        _tell_silence(ports, cluster, f"controller-silent-{silence}", last)
        return
    fact_id = f"cluster-lost-{silence}"
    fact = ClusterLost(
        id=fact_id, at=ports.clock.now(), generation=cluster.generation, reason=reason
    )
    if ports.clusters.record(cluster.name, fact):
        informed = tell_runs(ports, cluster, fact)
        yield Swept("cluster lost", cluster.name, f"{reason} Told {len(informed)} runs.")


def _tell_silence(ports: Ports, cluster: Cluster, entry_id: str, last: datetime) -> None:
    now = ports.clock.now()
    message = (
        f"The controller of cluster '{cluster.name}' has sent no heartbeat since "
        f"{last:%H:%M:%S} UTC, but AWS says that it runs: nothing is done to the job, and what "
        "happens to it is not known until the controller's agent reports again."
    )
    for run in ports.runs.on_cluster(cluster.name):
        ports.runs.note(
            run.id,
            TimelineEntry(
                id=entry_id, at=now, kind="status", type="ControllerSilent", message=message
            ),
        )


def _backend_says(ports: Ports, cluster: Cluster) -> str | None:
    """Why the backend, too, takes the cluster for lost; None if it does not."""
    seen = ports.backend(cluster).describe(cluster.name)
    silence = "Its controller sends no heartbeat, and"
    if seen is None or seen.arn != cluster.arn:
        return f"Cluster '{cluster.name}' is lost. {silence} AWS has no such cluster any more."
    if seen.status in GONE:
        says = f"AWS says it is {seen.said}. {seen.failure_message}"
        return f"Cluster '{cluster.name}' is lost. {silence} {says}".strip()
    controllers = [
        node for node in ports.backend(cluster).nodes(cluster) if node.role == "controller"
    ]
    if controllers and all(node.status == NodeState.RUNNING for node in controllers):
        return None
    states = (
        ", ".join(f"{node.instance_id} is {node.status}" for node in controllers) or "there is none"
    )
    return f"The controller of cluster '{cluster.name}' is lost. {silence} AWS says: {states}."
