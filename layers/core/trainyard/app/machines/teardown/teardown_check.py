"""Before anything is deleted: is it ours, is it still there, and does nobody need it?"""

from __future__ import annotations

from typing import Any

from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.facts.waking import wake
from trainyard.app.filesystems.archives import export_asked
from trainyard.app.machines.inputs import StepInput
from trainyard.domain import names
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus
from trainyard.outside.seen_clusters import BackendCluster
from trainyard.ports import Ports

#: Deletion takes seconds locally and minutes on AWS: look again after a third of the time it took
#: so far.
FIRST_LOOK_SECONDS = 2
LAST_LOOK_SECONDS = 60
SETTLE_SECONDS = 45


def teardown_check(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Say whether to delete, to wait for a deletion under way, or that it is gone or must stay."""
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.generation != given.generation:
        return _answer("blocked", "A newer cluster of this name exists.")
    if cluster.status == "Deleted":
        return _answer("gone", "It is deleted.")
    seen = ours(ports, cluster)
    if seen is None:
        cluster = _mark(ports, cluster)
        if _may_still_appear(ports, cluster):
            return _answer("wait", "Its creation may be under way.")
        return _answer("gone", "AWS has no such cluster of ours.")
    reason = None
    if cluster.status != "Deleting":
        reason = blocker_of(ports, cluster)
    if reason is not None:
        _not_forced(ports, cluster)
        return _answer("blocked", reason)
    cluster = _mark(ports, cluster)
    if cluster.adoption is not None:
        return _release(ports, cluster)
    if cluster.unarchived and seen.status != BackendStatus.DELETING:
        cluster = export_asked(ports, cluster)
        words = f"What its own filesystem holds is exported to {cluster.spec.archive} first."
        return _answer("wait", words, _look_after(ports, cluster))
    return _answer(
        "wait" if seen.status == BackendStatus.DELETING else "delete",
        f"AWS says {seen.said}.",
        _look_after(ports, cluster),
    )


def _release(ports: Ports, cluster: Cluster) -> dict[str, Any]:
    """A cluster that others made is only released: it is over when no node has anything of ours."""
    assert cluster.adoption is not None
    if not cluster.adoption.nodes:
        return _answer("gone", "None of its nodes has anything of ours.")
    words = f"{len(cluster.adoption.nodes)} of its nodes have the agent."
    return _answer("delete", words, _look_after(ports, cluster))


def ours(ports: Ports, cluster: Cluster) -> BackendCluster | None:
    """The backend's cluster if it is the one we made.

    Without an ARN (a crash after create) only its tags show that.
    """
    if cluster.arn is None:
        tagged = ports.backend(cluster).tagged() if cluster.create_requested else []
        return next(
            (seen for seen in tagged if seen.name == cluster.name and cluster.is_marked(seen.tags)),
            None,
        )
    seen = ports.backend(cluster).describe(cluster.name)
    return seen if seen is not None and seen.arn == cluster.arn else None


def _may_still_appear(ports: Ports, cluster: Cluster) -> bool:
    """Whether a cluster that AWS does not know may still appear: CreateCluster may be on its way.

    Without an ARN we believe only after a while that it is absent.
    """
    age = (ports.clock.now() - cluster.updated_at).total_seconds()
    return (
        cluster.create_requested
        and cluster.arn is None
        and cluster.problem is None
        and age < SETTLE_SECONDS
    )


def _mark(ports: Ports, cluster: Cluster) -> Cluster:
    """Mark the cluster Deleting: it takes no new runs, and the machine that makes it ends."""
    if cluster.status == "Deleting":
        return cluster
    marked = ports.clusters.put(cluster.changed(status="Deleting"))
    wake(ports, names.cluster_owner(cluster.name))
    return marked


def _not_forced(ports: Ports, cluster: Cluster) -> None:
    """What a person gave up was what the cluster held then, not what a run makes from now on.

    Nor is a deletion begun later that was asked for before.
    """
    if cluster.delete_forced or cluster.delete_asked:
        ports.clusters.put(cluster.changed(delete_forced=False, delete_asked=False))


def _look_after(ports: Ports, cluster: Cluster) -> int:
    export = cluster.archive.export if cluster.archive is not None else None
    asked = export.requested_at if export is not None else ports.clock.now()
    since = cluster.delete_requested_at or asked
    elapsed = (ports.clock.now() - since).total_seconds()
    return max(FIRST_LOOK_SECONDS, min(LAST_LOOK_SECONDS, int(elapsed / 3)))


def _answer(next_: str, reason: str, seconds: int = FIRST_LOOK_SECONDS) -> dict[str, Any]:
    return {"next": next_, "reason": reason[:1000], "timeoutSeconds": seconds}
