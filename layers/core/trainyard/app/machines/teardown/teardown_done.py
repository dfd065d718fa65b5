"""The cluster is gone: deletes its key, and records the fact with its runs."""

from __future__ import annotations

from typing import Any

from trainyard.app.clusters.cluster_tries import successor_of
from trainyard.app.clusters.create_cluster import start_cluster
from trainyard.app.facts.tell_runs import tell_runs
from trainyard.app.facts.waking import wake_cluster
from trainyard.app.machines.inputs import StepInput
from trainyard.domain.capacity_facts import TryGone
from trainyard.domain.cluster_facts import ClusterDeleted
from trainyard.domain.errors import RecordUnreadable, RunNotFound
from trainyard.domain.facts import data_of, type_of
from trainyard.domain.kinds import sentence
from trainyard.domain.records import Cluster, TimelineEntry
from trainyard.ports import Ports
from trainyard_contracts import places


def teardown_done(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Mark the cluster Deleted, record that with its runs and wake its machine.

    One that is tried in another way now becomes that. A repetition changes nothing.
    """
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.generation != given.generation or cluster.status not in ("Deleting", "Deleted"):
        return {"status": cluster.status}
    if (
        cluster.status != "Deleted"
    ):  # a repetition must not take the key of the next cluster of this name
        if cluster.adoption is not None:
            ports.secrets.delete(places.agent_key_secret(ports.config.secret_prefix, cluster.name))
        elif (
            ports.backend(cluster).describe(cluster.name) is None
        ):  # a cluster that was made for another record keeps its key and its role
            ports.secrets.delete(places.agent_key_secret(ports.config.secret_prefix, cluster.name))
            ports.backend(cluster).clean_up(cluster.name, cluster.generation)
        if (following := successor_of(ports, cluster, ports.clock.now())) is not None:
            return _try_again(ports, cluster, following)
        cluster = ports.clusters.put(cluster.changed(status="Deleted"))
    fact_id = f"cluster-deleted-{cluster.name}-{cluster.generation}"
    fact = ClusterDeleted(
        id=fact_id, at=cluster.updated_at, cluster_name=cluster.name, generation=cluster.generation
    )
    ports.clusters.record(cluster.name, fact)
    tell_runs(ports, cluster, fact)
    _tell_ended_owner(ports, cluster, fact)
    # A wait whose time ran out is stored until now: AWS sends no event of a deletion that would
    # have removed it.
    wake_cluster(ports, cluster.name)
    return {"status": "Deleted"}


def _try_again(ports: Ports, cluster: Cluster, following: Cluster) -> dict[str, Any]:
    """The next try takes the place of the one that is gone.

    After a crash the sweep starts its machine.
    """
    gone = TryGone(
        id=f"try-gone-{cluster.name}-{cluster.generation}",
        at=ports.clock.now(),
        cluster_name=cluster.name,
        generation=cluster.generation,
    )
    ports.clusters.record(cluster.name, gone)
    tell_runs(ports, cluster, gone)
    following = ports.clusters.succeed(cluster, following)
    start_cluster(ports, following)
    return {"status": following.status}


def _tell_ended_owner(ports: Ports, cluster: Cluster, fact: ClusterDeleted) -> None:
    """The run that the cluster was made for may have ended before it.

    No machine of its own will note the deletion.
    """
    try:
        owner = ports.runs.get(cluster.owner_run) if cluster.owner_run else None
    except (RunNotFound, RecordUnreadable):
        return
    if (
        owner is None
        or not owner.terminal
        or owner.cluster_generation not in (None, cluster.generation)
    ):
        return
    ports.runs.note(
        owner.id,
        TimelineEntry(
            id=fact.id,
            at=fact.at,
            kind="fact",
            type=type_of(fact),
            message=sentence(fact),
            data=data_of(fact),
        ),
    )
    if not owner.cluster_deleted:
        ports.runs.put(owner.changed(cluster_deleted=True))
