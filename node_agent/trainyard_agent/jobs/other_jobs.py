"""Looks at Slurm's queue for jobs that are not ours: a cluster that people use is not idle."""

from __future__ import annotations

import asyncio
import logging
import re

from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_contracts.heartbeats import OtherJobs

log = logging.getLogger(__name__)

#: `attempt_files.job_name`.
_OURS = re.compile(r"^run-[0-9a-z]{26}-[0-9]+$")
#: A queued job of which Slurm says this waits for a person, not for the cluster.
_NEVER = frozenset({"JobHeldUser", "JobHeldAdmin", "DependencyNeverSatisfied"})
#: So many users of other jobs are named, as many as a sentence holds.
USERS = 10


def parse_queue(text: str) -> OtherJobs:
    """Lines `state|reason|user|name` of squeue."""
    running = queued = 0
    users = set()
    for line in text.splitlines():
        state, reason, user, name = ([*line.split("|", 3), "", "", ""])[:4]
        if not state or _OURS.match(name) or (state == "PENDING" and reason in _NEVER):
            continue
        running += state != "PENDING"
        queued += state == "PENDING"
        users.add(user[:64])
    return OtherJobs(running=running, queued=queued, users=sorted(users)[:USERS])


class OtherJobsWatch:
    """`latest` is what Slurm said last; None while it never answered."""

    def __init__(self, slurm: Slurm, every_seconds: float) -> None:
        self._slurm, self._every = slurm, every_seconds
        self.latest: OtherJobs | None = None

    async def watch(self) -> None:
        while True:
            try:
                self.latest = parse_queue(await self._slurm.names_in_queue())
            except SlurmError as error:
                log.warning(
                    "the queue cannot be read: %s", error
                )  # the last known jobs are likelier than none
            await asyncio.sleep(self._every)
