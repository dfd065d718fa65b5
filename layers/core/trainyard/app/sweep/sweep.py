"""Each minute: repair what lost events, crashes between calls, and dead machines left behind.

A sweep ends before the time of its function is over. What is slow, such as a controller that does
not answer, keeps nothing else waiting: a duty has its share of the time, those that speak to nodes
come last, and each sweep begins with others of the runs and clusters.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from trainyard.app.audit.own_decisions import audit_own
from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_cluster, start_teardown
from trainyard.app.clusters.list_nodes import newest_heartbeats
from trainyard.app.facts.log_batch import envelopes
from trainyard.app.facts.record_fact import record_fact, record_job_fact
from trainyard.app.facts.situation import cluster_of, decide_now, silent_since
from trainyard.app.facts.tell_runs import tell_runs
from trainyard.app.facts.waking import wake, wake_cluster
from trainyard.app.machines.cluster.cluster_fail import cluster_fail
from trainyard.app.machines.inputs import StepInput
from trainyard.app.runs.submit_run import start_run
from trainyard.app.sweep.adopted import adopted_nodes
from trainyard.app.sweep.approvals import approval_step, pending_approvals
from trainyard.app.sweep.archives import archive_step
from trainyard.app.sweep.arrays import active_arrays, array_step
from trainyard.app.sweep.ask_backends import Unanswered, ask_each
from trainyard.app.sweep.cluster_changes import cluster_change
from trainyard.app.sweep.directories import directories, old_directory
from trainyard.app.sweep.filesystems import filesystem_step, filesystems, unknown_filesystem
from trainyard.app.sweep.filesystems import unknown as unknown_filesystems
from trainyard.app.sweep.notices import Unsent, notice_step, unsent_notices
from trainyard.app.sweep.orphans import REMEDY, Suspect, suspects
from trainyard.app.sweep.schedules import schedule_step, stored_schedules
from trainyard.app.sweep.swept import Swept
from trainyard.app.sweep.team_budgets import Watched, team_budget_step, watched_budgets
from trainyard.app.sweep.turns import turns_step
from trainyard.app.sweep.webhooks import delivery_step, due_deliveries
from trainyard.domain import idle, names, teardown
from trainyard.domain.approval_records import Approval
from trainyard.domain.array_records import RunArray
from trainyard.domain.errors import (
    ClusterNotFound,
    ConflictError,
    RecordUnreadable,
    RunNotFound,
    TrainyardError,
)
from trainyard.domain.facts import Book, ClusterLost, IdleAndSilent, job_ended
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.records import Cluster, Run, TimelineEntry, Wait
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.domain.webhook_records import Delivery
from trainyard.outside.directories import Directory
from trainyard.outside.executions import DeadLetter
from trainyard.outside.lustre import SeenFilesystem
from trainyard.outside.seen_clusters import Remains
from trainyard.ports import Ports
from trainyard_contracts.commands import Cancel, JobState, Status, answer_of
from trainyard_contracts.events import ClusterHeartbeat, ExportFinished

#: StartExecution follows the record's write within this; after it, it was lost.
START_SECONDS = 30
#: A wait that was woken but is still stored lost its SendTaskSuccess.
WOKEN_SECONDS = 20
#: A job that a heartbeat shows so long after its run ended was never stopped.
STRAY_SECONDS = 60
STOP_COMMAND_SECONDS = 20.0
#: A duty that took so long leaves what is left to the next sweep.
DUTY_SECONDS = 10.0
#: After so long nothing else is begun. The function has 60 s.
SWEEP_SECONDS = 45.0
#: Nor anything that speaks to a node, which may take 20 s.
SLOW_SECONDS = 35.0
#: So many dead letters a sweep: recorded within its time limit, even while the table is slow.
LETTERS = 200
#: So many executions in a row that die at once are a defect, not bad luck.
RESTART_LIMIT = 25
DEAD = frozenset({"FAILED", "TIMED_OUT", "ABORTED"})
GONE = frozenset({BackendStatus.FAILED, BackendStatus.DELETING})
#: The action by which a sweep tells what it had no time for.
PUT_OFF = "put off"
#: A prime, so that the places lie far apart.
_STRIDE = 7919
T = TypeVar("T")
#: What it lists, and what is done for each.
Duty = tuple[Callable[[Ports], Sequence[Any]], Callable[[Ports, Any], Iterator[Swept]]]
#: The action that names a cluster for which no record accounts; an alarm counts it.
UNKNOWN_CLUSTER = "unknown cluster kept"


def sweep(ports: Ports, timer: Callable[[], float] = time.monotonic) -> list[Swept]:
    """Do every duty for each of its items, as far as the time goes.

    The sweep reports a duty that fails for an item, and goes on with the next. `timer` counts
    seconds.
    """
    began = timer()
    duties = [(duty, SWEEP_SECONDS) for duty in QUICK]
    duties += [(duty, SLOW_SECONDS) for duty in _in_turn(ports, SLOW)]
    return [swept for duty, most in duties for swept in _done(ports, duty, timer, began + most)]


def _done(ports: Ports, given: Duty, timer: Callable[[], float], end: float) -> Iterator[Swept]:
    listing, duty = given
    until = min(end, timer() + DUTY_SECONDS)
    try:
        items = listing(ports) if timer() < end else None
    except Exception as error:  # noqa: BLE001  (the other duties have their turn)
        yield _failed(duty.__name__, error)
        return
    if items is None:
        yield Swept(PUT_OFF, duty.__name__, "all of it is left to the next sweep")
        return
    for place, item in enumerate(items):
        if timer() >= until:
            left = f"{len(items) - place} of {len(items)} are left to the next sweep"
            yield Swept(PUT_OFF, duty.__name__, left)
            return
        yield from _done_for(ports, duty, item)


def _done_for(
    ports: Ports, duty: Callable[[Ports, Any], Iterator[Swept]], item: Any
) -> Iterator[Swept]:
    if isinstance(item, Unanswered):
        yield _failed(f"{duty.__name__} {item.name}", item.error)
        return
    try:
        yield from duty(ports, item)
    except ConflictError:
        return  # another process changes it right now; the next sweep looks again
    except Exception as error:  # noqa: BLE001  (a defect met by one keeps no other waiting)
        yield _failed(f"{duty.__name__} {_name(item)}", error)


def _in_turn(ports: Ports, items: Sequence[T]) -> list[T]:
    """Beginning at another place in each minute, so that none is always the last."""
    if not items:
        return []
    first = int(ports.clock.now().timestamp() // 60) * _STRIDE % len(items)
    return [*items[first:], *items[:first]]


def _failed(subject: str, error: Exception) -> Swept:
    """What is none of our errors is a defect, and says where."""
    if isinstance(error, TrainyardError):
        return Swept("failed", subject, f"{error.code}: {error.detail}")
    place = traceback.extract_tb(error.__traceback__)[-1]
    return Swept("failed", subject, f"{error!r} at {place.filename}:{place.lineno}")


def _name(
    item: Wait
    | Run
    | Cluster
    | Suspect
    | Remains
    | DeadLetter
    | Filesystem
    | SeenFilesystem
    | Directory
    | RunArray
    | Schedule
    | Approval
    | Unsent
    | Delivery
    | Watched,
) -> str:
    if isinstance(item, Unsent):
        return item.notice.notice.id
    if isinstance(item, DeadLetter):
        return item.body[:200]
    if isinstance(item, SeenFilesystem):
        return item.fsx_id
    if isinstance(item, (Run, RunArray, Approval, Delivery)):
        return item.id
    return item.owner if isinstance(item, Wait) else item.name


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


def dead_run(ports: Ports, run: Run) -> Iterator[Swept]:
    """Start again a run that never started, or whose execution died.

    The next generation continues from the run's stored state. StartExecution of a run's own
    generation may be on its way; only the sweep itself starts the one after a dead execution.
    """
    for generation in range(run.generation, run.generation + RESTART_LIMIT):
        status = ports.executions.status("run", names.run_execution(run.id, generation))
        if status not in DEAD and status != "SUCCEEDED":
            break
    else:
        yield Swept(
            "failed",
            run.id,
            f"{RESTART_LIMIT} executions died before their first step was done; "
            "look at the newest one",
        )
        return
    died = generation > run.generation and not ports.runs.get(run.id).terminal
    if status is None and (died or _old(ports, run.updated_at)):
        start_run(ports, run.changed(generation=generation))
        what = "started" if generation == run.generation else "restarted"
        yield Swept(what, run.id, f"generation {generation} had no execution")


def _old(ports: Ports, moment: datetime) -> bool:
    return ports.clock.now() - moment > timedelta(seconds=START_SECONDS)


def dead_machine(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A cluster whose machine never started or died.

    A deletion is tried again for ever, the making of a cluster is not.
    """
    if cluster.status in ("Ready", "Updating", "Stopped"):  # no machine has anything to do
        return
    making = cluster.status in ("Pending", "Creating", "InService")
    name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    status = ports.executions.status("cluster" if making else "teardown", name)
    if status == "RUNNING" or (status not in DEAD and not _old(ports, cluster.updated_at)):
        return
    what = f"the cluster is {cluster.status} and its machine was {status or 'never started'}"
    if not making:
        start_teardown(ports, cluster)
    elif cluster.machine_tries < RESTART_LIMIT:
        tries = cluster.machine_tries + (status is not None)
        start_cluster(ports, ports.clusters.put(cluster.changed(machine_tries=tries)))
    else:
        error = {"Error": "MachineDied", "Cause": f"Its state machine died {RESTART_LIMIT} times."}
        cluster_fail(
            ports,
            StepInput(
                "cluster-fail",
                cluster_name=cluster.name,
                generation=cluster.generation,
                error=error,
            ),
        )
        yield Swept("cluster failed", cluster.name, what)
        return
    yield Swept("machine started", cluster.name, what)


def asked_deletion(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A deletion that was asked for while the machine of an earlier one ended without any."""
    if not cluster.delete_asked or cluster.status in ("Deleting", "Deleted"):
        return
    name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    if ports.executions.status("teardown", name) == "RUNNING":
        return
    start_teardown(ports, cluster)
    yield Swept("teardown", cluster.name, "it was asked for while an earlier one was ending")


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


def idle_cluster(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A cluster that no run used for its limit is deleted, unless something would be lost.

    One that is gone is closed.
    """
    if cluster.status not in ("Ready", "Stopped"):
        return
    over = ports.clock.now() > idle.ends_at(cluster)
    lost = any(
        fact.generation == cluster.generation
        for fact in Book(ports.clusters.facts(cluster.name)).of(ClusterLost)
    )
    gone = lost and ports.backend(cluster).describe(cluster.name) is None
    if not (over or gone):
        _warn_of_end(ports, cluster)
        return
    if cluster.adoption is not None and not gone:
        return  # others made it, and it costs them whether it is ours or not
    active = ports.runs.on_cluster(cluster.name)
    reason = blocker_of(ports, cluster)
    if gone or (reason is None and _surely_idle(ports, cluster)):
        start_teardown(ports, cluster)
        why = (
            "AWS has it no more"
            if gone
            else f"no run used it for {cluster.spec.idle_limit_seconds} s"
        )
        yield Swept("teardown", cluster.name, why)
    elif over and not active and reason is not None:
        yield Swept("kept", cluster.name, reason)


def _warn_of_end(ports: Ports, cluster: Cluster) -> None:
    """People hear once of each time without use that its end comes, while they can keep it."""
    if cluster.adoption is not None or ports.clock.now() < idle.told_at(cluster):
        return
    newest = ports.clusters.get(cluster.name)  # the list may be older
    now = ports.clock.now()
    if newest.idle_since != cluster.idle_since or newest.status != cluster.status:
        return
    if blocker_of(ports, newest) is None:
        ports.clusters.tell(newest.name, idle.notice(newest, now))


def _surely_idle(ports: Ports, cluster: Cluster) -> bool:
    """A cluster whose controller is silent counts as idle only after we listened for a while.

    A table that was restored from a backup lacks the newer heartbeats.
    """
    last = silent_since(ports, cluster)
    if last is None:
        return True
    now = ports.clock.now()
    fact_id = f"idle-and-silent-{cluster.name}-{cluster.generation}-{last:%Y%m%dT%H%M%S%f}"
    ports.clusters.record(cluster.name, IdleAndSilent(id=fact_id, at=now))
    first = next(
        (fact.at for fact in ports.clusters.facts(cluster.name) if fact.id == fact_id), now
    )
    return now - first >= timedelta(seconds=ports.config.orphan_seconds)


def overdue_teardown(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A cluster whose run is over and wanted it deleted.

    Its teardown failed for good, or another run used the cluster then.
    """
    owner = _owner(ports, cluster)
    if owner is None or not teardown.overdue(cluster, owner):
        return
    if blocker_of(ports, cluster) is not None:
        return
    message = f"Cluster '{cluster.name}' outlived the run; it is deleted now."
    entry_id = f"status-overdue-{cluster.name}-{cluster.generation}"
    ports.runs.note(
        owner.id,
        TimelineEntry(
            id=entry_id, at=ports.clock.now(), kind="status", type="ClusterOverdue", message=message
        ),
    )
    start_teardown(ports, cluster)
    yield Swept("teardown", cluster.name, f"run {owner.id} is {owner.status} and wanted it deleted")


def _owner(ports: Ports, cluster: Cluster) -> Run | None:
    return _run(ports, cluster.owner_run) if cluster.owner_run else None


def _run(ports: Ports, run_id: str) -> Run | None:
    try:
        return ports.runs.get(run_id)
    except (RunNotFound, RecordUnreadable):
        return None


def stray_job(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """Stop a job whose run is over: nobody could reach its controller when the run ended."""
    if cluster.status != "Ready":
        return
    for beat in newest_heartbeats(ports, cluster.name, 1):
        for sample in beat.runs:
            run = _run(ports, sample.run_id)
            if (
                run is None
                or run.finished_at is None
                or beat.at - run.finished_at < timedelta(seconds=STRAY_SECONDS)
            ):
                continue
            ports.backend(cluster).run(
                cluster, Cancel(run.id).argv(), timeout_seconds=STOP_COMMAND_SECONDS
            )
            yield Swept(
                "job stopped",
                run.id,
                f"the run is {run.status}, but its job still ran on {cluster.name}",
            )


def unheard_job(ports: Ports, run: Run) -> Iterator[Swept]:
    """Ask for a job whose nodes came with it: the event of its end may be lost."""
    attempt = run.attempt
    if attempt is None or attempt.submitted_at is None or attempt.ended_at is not None:
        return
    if ports.clock.now() - attempt.submitted_at < timedelta(seconds=START_SECONDS):
        return
    cluster = cluster_of(ports, run)
    if cluster is None or cluster.status != "Ready" or not cluster.spec.nodes_come_with_jobs:
        return
    result = ports.backend(cluster).run(
        cluster, Status(run.id).argv(), timeout_seconds=STOP_COMMAND_SECONDS
    )
    told = JobState.of(answer_of(result.stdout) or {})
    if result.exit_code != 0 or not told.how or told.attempt != attempt.number:
        return
    fact = job_ended(told.job_id, run.id, attempt.number, told.how, told.reason, ports.clock.now())
    if fact is not None and Book(ports.runs.facts(run.id)).job_end_of(attempt) is None:
        record_job_fact(ports, run, fact)
        yield Swept("job's end", run.id, f"no event told that {told.job_id} is over ({told.how})")


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


def _remains(ports: Ports) -> list[Remains | Unanswered]:
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


def unneeded_wait(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """End the wait of a machine whose cluster is being deleted; its wake-up may have been lost."""
    wait = ports.waits.get(names.cluster_owner(cluster.name))
    if cluster.status == "Deleting" and wait is not None and wait.woken_at is None:
        wake_cluster(ports, cluster.name)
        yield Swept("woken", cluster.name, "it is being deleted")


def dead_letter(ports: Ports, letter: DeadLetter) -> Iterator[Swept]:
    """Record, late, an event that on-fact failed to record or that never reached it."""
    try:
        result = _recorded_late(ports, letter.body)
    except TrainyardError:
        raise
    except Exception as error:  # noqa: BLE001  (the letter stays; the next ones are tried)
        yield Swept("failed", _name(letter), f"a dead letter cannot be recorded: {error!r}")
        return
    ports.dead_letters.forget(letter)
    yield Swept("dead letter", _name(letter), result)


def _recorded_late(ports: Ports, body: str) -> str:
    try:
        envelope = json.loads(body)
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict):
        return "dropped: it is no event"
    if (
        envelope.get("detail-type") == ClusterHeartbeat.__name__
    ):  # an old heartbeat must not make the controller look alive now
        return "dropped: a late heartbeat; the next one tells the same, newer"
    recorded = [record_fact(ports, one) for one in envelopes(envelope)]
    if not recorded:
        return "dropped: nothing that can be read is in it"
    return f"{recorded[-1].result}: {recorded[-1].reason}"


def _letters(ports: Ports) -> Sequence[DeadLetter]:
    return ports.dead_letters.take(LETTERS)


def _waits(ports: Ports) -> Sequence[Wait]:
    return _in_turn(ports, ports.waits.all())


def _runs(ports: Ports) -> Sequence[Run]:
    return _in_turn(ports, ports.runs.active())


def _clusters(ports: Ports) -> Sequence[Cluster]:
    return _in_turn(ports, ports.clusters.active())


#: Each item takes some calls of AWS.
QUICK: tuple[Duty, ...] = (
    (_waits, lost_wake),
    (_runs, dead_run),
    (watched_budgets, team_budget_step),
    (_clusters, dead_machine),
    (_clusters, asked_deletion),
    (_clusters, cluster_change),
    (_clusters, silent_controller),
    (_clusters, archive_step),
    (_clusters, idle_cluster),
    (_clusters, overdue_teardown),
    (_clusters, turns_step),
    (pending_approvals, approval_step),
    (active_arrays, array_step),
    (stored_schedules, schedule_step),
    (_remains, left_over),
    (suspects, orphan),
    (_clusters, unneeded_wait),
    (filesystems, filesystem_step),
    (unknown_filesystems, unknown_filesystem),
    (directories, old_directory),
    (unsent_notices, notice_step),
    (due_deliveries, delivery_step),
    (_letters, dead_letter),
)
#: Each item may wait for a node that does not answer.
SLOW: tuple[Duty, ...] = (
    (_clusters, adopted_nodes),
    (_clusters, stray_job),
    (_runs, unheard_job),
)
