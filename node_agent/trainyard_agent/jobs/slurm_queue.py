"""Finds whose jobs hold the nodes that a job waits for, so that a person needs no shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainyard_agent.host.slurm_names import expand
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_contracts.attempt_events import JobAhead

#: So many jobs that are ahead in Slurm's queue are named; more would only make the event and the
#: sentence longer.
MOST_AHEAD = 20
#: A waiting job that nothing but room holds up; others (a dependency, a hold) are in nobody's way.
_READY = frozenset({"Resources", "Priority"})
_USER = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,63}$")


@dataclass(frozen=True)
class QueuedJob:
    """A job that waits or holds nodes."""

    job_id: str
    state: str
    user: str
    nodes: tuple[str, ...]
    partition: str
    priority: int
    reason: str

    @property
    def order(self) -> tuple[int, int]:
        """Slurm's: higher priority first, then the older job."""
        number = re.match(r"\d+", self.job_id)
        return -self.priority, int(number.group()) if number else 0


def parse_queue(text: str) -> dict[str, QueuedJob]:
    """Lines of `Slurm.queue` by job id; what does not fit is left out."""
    found = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) == 7:
            job_id, state, user, nodes, partition, priority, reason = (
                part.strip() for part in parts
            )
            number = int(priority) if priority.isdigit() else 0
            name = user if _USER.match(user) else "?"
            found[job_id] = QueuedJob(job_id, state, name, expand(nodes), partition, number, reason)
    return found


def ahead(
    job_id: str, queue: Mapping[str, QueuedJob], nodes: Mapping[str, SlurmNode]
) -> list[JobAhead]:
    """What holds nodes of the job's partition, then what waits before it."""
    ours = queue.get(job_id)
    if ours is None:
        return []
    mine = {name for name, node in nodes.items() if ours.partition in node.partitions}
    others = sorted(
        (job for job in queue.values() if job.job_id != job_id), key=lambda job: job.order
    )
    holding = [job for job in others if mine & set(job.nodes)]
    waiting = [
        job
        for job in others
        if job.state == "PENDING"
        and job.reason in _READY
        and job.partition == ours.partition
        and job.order < ours.order
    ]
    return [
        JobAhead(job_id=job.job_id, user=job.user, nodes=list(job.nodes))
        for job in holding + waiting
    ][:MOST_AHEAD]
