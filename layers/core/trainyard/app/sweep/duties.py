"""The duties of a sweep: what each lists, and what is done for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from trainyard.app.sweep.adopted import adopted_nodes
from trainyard.app.sweep.approvals import approval_step, pending_approvals
from trainyard.app.sweep.archives import archive_step
from trainyard.app.sweep.arrays import active_arrays, array_step
from trainyard.app.sweep.cluster_changes import cluster_change
from trainyard.app.sweep.dead_letters import dead_letter, letters
from trainyard.app.sweep.dead_machines import dead_machine, dead_run
from trainyard.app.sweep.directories import directories, old_directory
from trainyard.app.sweep.filesystems import filesystem_step, filesystems, unknown_filesystem
from trainyard.app.sweep.filesystems import unknown as unknown_filesystems
from trainyard.app.sweep.idle_clusters import idle_cluster
from trainyard.app.sweep.lost_wakes import lost_wake, unneeded_wait
from trainyard.app.sweep.notices import notice_step, unsent_notices
from trainyard.app.sweep.orphans import suspects
from trainyard.app.sweep.schedules import schedule_step, stored_schedules
from trainyard.app.sweep.silent_controllers import silent_controller
from trainyard.app.sweep.stray_jobs import stray_job, unheard_job
from trainyard.app.sweep.swept import Swept
from trainyard.app.sweep.team_budgets import team_budget_step
from trainyard.app.sweep.teardowns import asked_deletion, overdue_teardown
from trainyard.app.sweep.turns import turns_step
from trainyard.app.sweep.unknown_clusters import all_remains, left_over, orphan
from trainyard.app.sweep.watched_budgets import watched_budgets
from trainyard.app.sweep.webhooks import delivery_step, due_deliveries
from trainyard.domain.records import Cluster, Run, Wait
from trainyard.ports import Ports

#: A prime, so that the places lie far apart.
_STRIDE = 7919
T = TypeVar("T")
#: What it lists, and what is done for each.
Duty = tuple[Callable[[Ports], Sequence[Any]], Callable[[Ports, Any], Iterator[Swept]]]


def in_turn(ports: Ports, items: Sequence[T]) -> list[T]:
    """Beginning at another place in each minute, so that none is always the last."""
    if not items:
        return []
    first = int(ports.clock.now().timestamp() // 60) * _STRIDE % len(items)
    return [*items[first:], *items[:first]]


def _waits(ports: Ports) -> Sequence[Wait]:
    return in_turn(ports, ports.waits.all())


def _runs(ports: Ports) -> Sequence[Run]:
    return in_turn(ports, ports.runs.active())


def _clusters(ports: Ports) -> Sequence[Cluster]:
    return in_turn(ports, ports.clusters.active())


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
    (all_remains, left_over),
    (suspects, orphan),
    (_clusters, unneeded_wait),
    (filesystems, filesystem_step),
    (unknown_filesystems, unknown_filesystem),
    (directories, old_directory),
    (unsent_notices, notice_step),
    (due_deliveries, delivery_step),
    (letters, dead_letter),
)
#: Each item may wait for a node that does not answer.
SLOW: tuple[Duty, ...] = (
    (_clusters, adopted_nodes),
    (_clusters, stray_job),
    (_runs, unheard_job),
)
