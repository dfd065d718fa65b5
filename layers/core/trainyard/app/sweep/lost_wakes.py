"""Waits whose wake was lost, and waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainyard.app.facts.situation import decide_now
from trainyard.app.facts.waking import wake, wake_cluster
from trainyard.app.sweep.swept import Swept
from trainyard.domain import names
from trainyard.domain.book import Book
from trainyard.domain.records import Cluster, Run, Wait
from trainyard.ports import Ports
from trainyard_contracts.events import ExportFinished

#: A wait that was woken but is still stored lost its SendTaskSuccess.
WOKEN_SECONDS = 20


def lost_wake(ports: Ports, wait: Wait) -> Iterator[Swept]:
    """A wait whose wake-up was lost: woken but still stored, or there is something to do."""
    now = ports.clock.now()
    if wait.woken_at is not None and now - wait.woken_at > timedelta(seconds=WOKEN_SECONDS):
        ports.executions.succeed(wait.token, {})
        ports.waits.clear(wait.owner, wait.token)
        yield Swept("woken again", wait.owner, "it was woken, but its token was never used")
    elif wait.woken_at is None and _overdue(ports, wait, now):
        wake(ports, wait.owner)
        yield Swept("woken", wait.owner, "there is something to do that no event told")


def _overdue(ports: Ports, wait: Wait, now: datetime) -> bool:
    """Only a run's wait can be judged from the records alone; a cluster's own waits are short."""
    kind, _, name = wait.owner.partition(":")
    if kind != "run" or now - wait.since < timedelta(seconds=WOKEN_SECONDS):
        return False
    run = ports.runs.get(name)
    decision = decide_now(ports, run)
    expected = {
        "cluster": "ensure-cluster",
        "outcome": "wait",
        "export": "export",
        "teardown": "teardown",
    }[wait.kind]
    changed = decision.next != expected or decision.run != run
    return changed or (wait.kind == "export" and _export_ended(ports, run))


def _export_ended(ports: Ports, run: Run) -> bool:
    export = run.export.id if run.export else ""
    return any(
        ended.export_id == export for ended in Book(ports.runs.facts(run.id)).of(ExportFinished)
    )


def unneeded_wait(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """End the wait of a machine whose cluster is being deleted; its wake-up may have been lost."""
    wait = ports.waits.get(names.cluster_owner(cluster.name))
    if cluster.status == "Deleting" and wait is not None and wait.woken_at is None:
        wake_cluster(ports, cluster.name)
        yield Swept("woken", cluster.name, "it is being deleted")
