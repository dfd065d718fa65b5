"""What no record accounts for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from trainyard.app.audit.own_decisions import audit_own
from trainyard.app.sweep.ask_backends import Unanswered, ask_each
from trainyard.app.sweep.orphans import REMEDY, Suspect
from trainyard.app.sweep.swept import Swept
from trainyard.domain.errors import ClusterNotFound, RecordUnreadable
from trainyard.outside.seen_clusters import Remains
from trainyard.ports import Ports

#: The action that names a cluster for which no record accounts; an alarm counts it.
UNKNOWN_CLUSTER = "unknown cluster kept"


def orphan(ports: Ports, suspect: Suspect) -> Iterator[Swept]:
    """Look at each cluster with our tag and without a living record.

    It is deleted on proof that we ended with it; else it is kept, and each sweep reports it.
    """
    if suspect.kept:
        yield Swept(
            UNKNOWN_CLUSTER,
            suspect.name,
            f"{suspect.seen.arn} carries our tag, but {suspect.kept}. {REMEDY}",
        )
        return
    words = f"its record proves that this stack made {suspect.seen.arn} and ended with it"
    subject, key = f"cluster/{suspect.name}", suspect.seen.arn
    audit_own(ports, "cluster.delete", subject, key=key, reason=f"An orphan: {words}.")
    ports.backend(suspect.seen).delete(suspect.name)
    yield Swept("orphan deleted", suspect.name, words)


def all_remains(ports: Ports) -> list[Remains | Unanswered]:
    return ask_each(ports, lambda backend: backend.remains())


def left_over(ports: Ports, remains: Remains) -> Iterator[Swept]:
    """What was made beside a cluster that is gone.

    Its record was lost, or its deletion died between two calls.
    """
    if ports.clock.now() - remains.created_at < timedelta(
        seconds=ports.config.orphan_seconds
    ) or _in_use(ports, remains):
        return
    ports.backend(remains).clean_up(remains.name, remains.generation)
    yield Swept(
        "remains deleted", remains.name, f"generation {remains.generation} of the cluster is gone"
    )


def _in_use(ports: Ports, remains: Remains) -> bool:
    """Ask AWS, because a record may be lost, old, or ahead of AWS.

    Nothing is removed while AWS has a cluster of this name.
    """
    try:
        cluster = ports.clusters.get(remains.name)
        coming = cluster.generation == remains.generation and cluster.status != "Deleted"
    except ClusterNotFound:
        coming = False
    except RecordUnreadable:
        return True
    return coming or ports.backend(remains).describe(remains.name) is not None
