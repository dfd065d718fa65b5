"""Keeps a job off nodes that are powered down while enough others are up, or will be in a moment.

Slurm rather boots a machine, for minutes, than wait a tenth of a second for a node that still ends
the job before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable

from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_jobs import Job
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)

#: A job that still waits then may have nodes powered up for it.
HOLD_SECONDS = 10.0


def not_needed(bundle: JobBundle, usable: Iterable[SlurmNode], freed: Collection[str]) -> set[str]:
    """Those of the usable nodes that are off, if enough others are up for the job.

    `freed`: nodes that the run's older job had; it ends while the next one is submitted.
    """
    known = list(usable)
    up = [node for node in known if node.serves and (node.base == "idle" or node.name in freed)]
    return {node.name for node in known if node.off} if len(up) >= bundle.nodes else set()


class PoweredDown:
    """Lets a job that waits for long have the nodes that are off after all.

    What it was kept from, Slurm's list says: this agent may have started since.
    """

    def __init__(self, slurm: Slurm, table: NodeTable) -> None:
        self._slurm, self._table = slurm, table

    async def look_at(self, attempt: Attempt, job: Job) -> None:
        """Of a job that waits. Its list is left alone where the control plane has set it since."""
        waited = time.monotonic() - attempt.followed_since
        if waited < HOLD_SECONDS or attempt.exclusion_set:
            return
        bundle = bundle_of(attempt)
        unwanted = {*bundle.exclude_nodes, *bundle.down_nodes} if bundle else set(job.excluded)
        known = self._table.slurm_nodes
        off = {name for name, node in known.items() if node.off}
        kept = off & set(job.excluded) - unwanted
        if not kept:
            return
        still = sorted(known.keys() & {*job.excluded} - kept)  # it refuses to exclude any other
        try:
            await self._slurm.exclude(job.job_id, still)
        except SlurmError as error:
            log.warning("%s: no node can be powered up for its job yet: %s", attempt, error)
            return
        words = "%s: job %s has waited for %.0f s, so nodes may be powered up for it: %s"
        log.info(words, attempt, job.job_id, waited, ", ".join(sorted(kept)))
