"""Each minute: repair what lost events, crashes between two calls, and dead machines left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.app.create_cluster import start_cluster, start_teardown
from trainyard.app.situation import think
from trainyard.app.submit_run import start_run
from trainyard.app.telling import tell_runs
from trainyard.app.waking import wake, wake_cluster
from trainyard.domain import facts, names, teardown
from trainyard.domain.errors import RunNotFound, TrainyardError
from trainyard.domain.records import Cluster, Fact, Run, TimelineEntry, Wait
from trainyard.domain.teardown import blocker
from trainyard.ports import Ports

#: StartExecution follows the record's write within this; after it, it was lost.
START_SECONDS = 30
#: A wait that was woken but is still stored lost its SendTaskSuccess.
WOKEN_SECONDS = 20
ORPHAN_SECONDS = 600
SILENT_INTERVALS = 3
RESTART_LIMIT = 25
DEAD = frozenset({"FAILED", "TIMED_OUT", "ABORTED"})
GONE = frozenset({"Failed", "Deleting"})


@dataclass(frozen=True)
class Swept:
    """One thing the sweep did, and why."""

    action: str
    subject: str
    reason: str


def sweep(ports: Ports) -> list[Swept]:
    """Run every duty; one that fails is reported and does not keep the others from running."""
    done: list[Swept] = []
    for duty in DUTIES:
        try:
            done.extend(duty(ports))
        except TrainyardError as error:
            done.append(Swept("failed", duty.__name__, f"{error.code}: {error.detail}"))
    return done


def waits(ports: Ports) -> Iterator[Swept]:
    """Waits whose wake-up was lost: woken but still stored, or something to do that no event told."""
    now = ports.clock.now()
    for wait in ports.waits.all():
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
    decision = think(ports, run)
    expected = {"cluster": "ensure-cluster", "outcome": "wait", "export": "export", "teardown": "teardown"}[wait.kind]
    changed = decision.next != expected or decision.run != run
    return changed or (wait.kind == "export" and _export_ended(ports, run))


def _export_ended(ports: Ports, run: Run) -> bool:
    export = run.export.id if run.export else ""
    return any(fact.type == "ExportFinished" and fact.data.get("exportId") == export for fact in ports.runs.facts(run.id))


def runs(ports: Ports) -> Iterator[Swept]:
    """Runs that never started, or whose execution died: the next generation goes on where the run stands.

    StartExecution of a run's own generation may be on its way; only the sweep itself starts the one after a dead execution.
    """
    for run in ports.runs.active():
        generation = run.generation
        while generation < run.generation + RESTART_LIMIT:
            status = ports.executions.status("run", names.run_execution(run.id, generation))
            if status not in DEAD and status != "SUCCEEDED":
                break
            generation += 1
        died = generation > run.generation and not ports.runs.get(run.id).terminal
        if status is None and (died or _old(ports, run.updated_at)):
            start_run(ports, run.model_copy(update={"generation": generation}))
            what = "started" if generation == run.generation else "restarted"
            yield Swept(what, run.id, f"generation {generation} had no execution")


def _old(ports: Ports, moment: datetime) -> bool:
    return ports.clock.now() - moment > timedelta(seconds=START_SECONDS)


def machines(ports: Ports) -> Iterator[Swept]:
    """Clusters whose machine never started or died."""
    for cluster in ports.clusters.active():
        if cluster.status == "Ready" or not _old(ports, cluster.updated_at):
            continue
        making = cluster.status in ("Pending", "Creating", "InService")
        name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
        status = ports.executions.status("cluster" if making else "teardown", name)
        if status == "RUNNING" or cluster.machine_tries >= RESTART_LIMIT:
            continue
        if not making:
            start_teardown(ports, cluster)
        else:
            tries = cluster.machine_tries + (status is not None)
            start_cluster(ports, ports.clusters.put(cluster.model_copy(update={"machine_tries": tries})))
        yield Swept("machine started", cluster.name, f"the cluster is {cluster.status} and its machine was {status or 'never started'}")


def silent(ports: Ports) -> Iterator[Swept]:
    """A controller that sends no heartbeat is lost only if the backend says so too: unreachable is not dead."""
    limit = timedelta(seconds=SILENT_INTERVALS * ports.config.heartbeat_seconds)
    for cluster in ports.clusters.active():
        last = cluster.last_heartbeat_at or cluster.ready_at
        if cluster.status != "Ready" or last is None or ports.clock.now() - last <= limit:
            continue
        reason = _backend_says(ports, cluster)
        if reason is None:
            continue
        fact_id = f"cluster-lost-{cluster.name}-{cluster.generation}"
        data = {"reason": reason, "generation": cluster.generation}
        fact = Fact(id=fact_id, type=facts.CLUSTER_LOST, at=ports.clock.now(), data=data)
        if ports.clusters.record(cluster.name, fact):
            told = tell_runs(ports, cluster, fact, reason)
            yield Swept("cluster lost", cluster.name, f"{reason} Told {len(told)} runs.")


def _backend_says(ports: Ports, cluster: Cluster) -> str | None:
    """Why the backend, too, takes the cluster for lost; None if it does not."""
    seen = ports.backend.describe(cluster.name)
    silence = "Its controller sends no heartbeat, and"
    if seen is None or seen.arn != cluster.arn:
        return f"Cluster '{cluster.name}' is lost. {silence} AWS has no such cluster any more."
    if seen.status in GONE:
        return f"Cluster '{cluster.name}' is lost. {silence} AWS says it is {seen.status}. {seen.failure_message}".strip()
    controllers = [node for node in ports.backend.nodes(cluster) if node.role == "controller"]
    if controllers and all(node.status == "Running" for node in controllers):
        return None
    states = ", ".join(f"{node.instance_id} is {node.status}" for node in controllers) or "there is none"
    return f"The controller of cluster '{cluster.name}' is lost. {silence} AWS says: {states}."


def idle(ports: Ports) -> Iterator[Swept]:
    """Clusters that no run used for their limit are deleted, unless something would be lost; gone ones are closed."""
    for cluster in ports.clusters.active():
        if cluster.status != "Ready":
            continue
        used = max(moment for moment in (cluster.last_used_at, cluster.ready_at, cluster.created_at) if moment is not None)
        over = ports.clock.now() - used > timedelta(seconds=cluster.spec.idle_limit_seconds)
        lost = any(
            f.type == facts.CLUSTER_LOST and f.data.get("generation") == cluster.generation for f in ports.clusters.facts(cluster.name)
        )
        gone = lost and ports.backend.describe(cluster.name) is None
        if not (over or gone):
            continue
        reason = blocker(cluster, ports.runs.on_cluster(cluster.name), ports.clusters.facts(cluster.name))
        if reason is None or gone:
            start_teardown(ports, cluster)
            yield Swept(
                "teardown", cluster.name, "AWS has it no more" if gone else f"no run used it for {cluster.spec.idle_limit_seconds} s"
            )
        elif over and not ports.runs.on_cluster(cluster.name):
            yield Swept("kept", cluster.name, reason)


def overdue_teardowns(ports: Ports) -> Iterator[Swept]:
    """Clusters whose run is over and wanted them deleted: its teardown failed for good, or another run used the cluster then."""
    for cluster in ports.clusters.active():
        owner = _owner(ports, cluster)
        if owner is None or not teardown.overdue(cluster, owner):
            continue
        if blocker(cluster, ports.runs.on_cluster(cluster.name), ports.clusters.facts(cluster.name)) is not None:
            continue
        message = f"Cluster '{cluster.name}' outlived the run; it is deleted now."
        entry_id = f"status-overdue-{cluster.name}-{cluster.generation}"
        ports.runs.note(owner.id, TimelineEntry(id=entry_id, at=ports.clock.now(), kind="status", type="ClusterOverdue", message=message))
        start_teardown(ports, cluster)
        yield Swept("teardown", cluster.name, f"run {owner.id} is {owner.status} and wanted it deleted")


def _owner(ports: Ports, cluster: Cluster) -> Run | None:
    try:
        return ports.runs.get(cluster.owner_run) if cluster.owner_run else None
    except RunNotFound:
        return None


def orphans(ports: Ports) -> Iterator[Swept]:
    """Clusters with our tag that no record knows cost money and serve nobody."""
    known = {cluster.name: cluster for cluster in ports.clusters.active()}
    for seen in ports.backend.tagged():
        ours = known.get(seen.name)
        if ours is not None and ours.arn in (None, seen.arn):
            continue
        age = ports.clock.now() - seen.created_at if seen.created_at else None
        if seen.status == "Deleting" or age is None or age < timedelta(seconds=ORPHAN_SECONDS):
            continue
        ports.backend.delete(seen.name)
        yield Swept("orphan deleted", seen.name, f"it carries our tag, and no record knows {seen.arn}")


def finished_clusters(ports: Ports) -> Iterator[Swept]:
    """Waits of machines that make a cluster which someone deletes: their wake-up may have been lost."""
    for cluster in ports.clusters.active():
        wait = ports.waits.get(names.cluster_owner(cluster.name))
        if cluster.status == "Deleting" and wait is not None and wait.woken_at is None:
            wake_cluster(ports, cluster.name)
            yield Swept("woken", cluster.name, "it is being deleted")


DUTIES: tuple[Callable[[Ports], Iterator[Swept]], ...] = (
    waits,
    runs,
    machines,
    silent,
    idle,
    overdue_teardowns,
    orphans,
    finished_clusters,
)
