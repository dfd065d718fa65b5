"""Load what a decision needs and decide, in one place, so that a step and its wait see the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainyard.domain.approval_records import Approval
from trainyard.domain.decisions import Decision, Next
from trainyard.domain.errors import ApprovalNotFound, ClusterNotFound
from trainyard.domain.records import Checkpoint, Cluster, Run
from trainyard.domain.recovery import decide
from trainyard.domain.turns import Place, began, going, place_of
from trainyard.ports import Ports

#: A controller is silent after so many heartbeats that did not come.
SILENT_INTERVALS = 3
#: Checkpoints that a decision looks at; the newest whole one is what counts.
NEWEST = 20


def cluster_of(ports: Ports, run: Run) -> Cluster | None:
    """The run's cluster, or None if there is no record of it yet."""
    try:
        return ports.clusters.get(run.cluster_name)
    except ClusterNotFound:
        return None


def all_checkpoints(ports: Ports, run_id: str) -> Iterator[Checkpoint]:
    """The whole list of a run's checkpoints, the newest step first."""
    token: str | None = None
    while True:
        page = ports.runs.checkpoints(run_id, limit=1000, token=token)
        yield from page.items
        token = page.next_token
        if token is None:
            return


def silent_since(ports: Ports, cluster: Cluster) -> datetime | None:
    """The last heartbeat of a ready cluster that is silent now; it names this silence.

    None if it is not silent.
    """
    if cluster.spec.nodes_come_with_jobs:  # nobody speaks for it between jobs
        return None
    last = cluster.last_heartbeat_at or cluster.ready_at
    limit = timedelta(seconds=SILENT_INTERVALS * ports.config.heartbeat_seconds)
    return (
        last
        if cluster.status == "Ready" and last is not None and ports.clock.now() - last > limit
        else None
    )


def still(ports: Ports, run_id: str, next_: Next) -> bool:
    """Whether the run's next step would still be this one.

    A step asks that after a failure: it may no longer make sense to repeat it.
    """
    return decide_now(ports, ports.runs.get(run_id)).next == next_


def decide_now(ports: Ports, run: Run) -> Decision:
    """Decide on the stored state of now; nothing is saved."""
    cluster = cluster_of(ports, run)
    facts = ports.runs.facts(run.id)
    if cluster is not None:
        facts = facts + ports.clusters.facts(cluster.name)
    newest = (
        ports.runs.checkpoints(run.id, limit=NEWEST, token=None).items
        if run.attempt is not None
        else ()
    )
    parents = [ports.runs.get(one) for one in run.spec.after] if run.waits_for_runs else []
    place = _place(ports, run, cluster)
    approval = _approval(ports, run)
    return decide(run, facts, cluster, ports.clock.now(), newest, parents, place, approval)


def _approval(ports: Ports, run: Run) -> Approval | None:
    """The one that the run waits for; None where it waits for none, or it is not made yet."""
    if run.approval is None or not run.waits_for_approval or not going(run):
        return None
    try:
        return ports.approvals.get(run.approval.id)
    except ApprovalNotFound:
        return None


def _place(ports: Ports, run: Run, cluster: Cluster | None) -> Place | None:
    """Whether it has its turn; None where there are no turns, or where it does not ask for one.

    One that waits for other runs may ask for it in the very decision that ends that wait.
    """
    if cluster is None or cluster.spec.nodes_come_with_jobs or began(run) or not going(run):
        return None
    return place_of(ports.turns.get(cluster.name), run)
