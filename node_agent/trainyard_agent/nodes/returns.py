"""Takes a lost node back once its agent and its slurmd answer again: the source of NodeReturned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Protocol

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.nodes.activity import Jobs
from trainyard_agent.nodes.node_table import Node, NodeTable
from trainyard_agent.nodes.questions import address_of, ask
from trainyard_contracts.node_events import NodeReturned

log = logging.getLogger(__name__)

#: Why a node is down, in Slurm's words, begins so where we set it down.
OURS = "trainyard"
#: Slurm sets such nodes down and never takes them back by itself; we do, once agent and slurmd
#: answer again.
OUR_REASONS = (OURS, "not responding", "node unexpectedly rebooted")
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.1, 5.0


class Link(Protocol):
    async def kill_on(
        self, node: str, run_id: str, attempt: int, job_ids: Collection[str]
    ) -> int | None:
        """How many leftovers the node's agent killed; None if it does not answer."""
        ...


class Returns:
    """Gives Slurm back a node that was away and whose agent is linked again."""

    def __init__(
        self, slurm: Slurm, reporter: Reporter, table: NodeTable, link: Link, jobs: Jobs
    ) -> None:
        self._slurm, self._reporter, self._table = slurm, reporter, table
        self._link, self._jobs = link, jobs

    async def welcome_back(self, node: Node) -> None:
        """A lost node: end what is left there, give it back to Slurm, then report it."""
        pause = FIRST_PAUSE_SECONDS
        while not await self._is_back(node):
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE_SECONDS, pause * 1.5)
        node.task = None
        event = self._reporter.make(NodeReturned, about=self._table.evidence(node.name))
        self._table.report(node, "linked", event)

    async def _is_back(self, node: Node) -> bool:
        return (
            await self.end_leftovers(node)
            and await self._slurmd_answers(node)
            and await self._serves_again(node.name)
        )

    async def end_leftovers(self, node: Node) -> bool:
        """Whether its agent looked for what ended meanwhile and found nothing to kill.

        What ended while the node was not heard may still run there. A process that was killed may
        take seconds to give back what it held; it is looked for again.
        """
        nothing = True
        for run_id, attempt, job_ids in self._jobs.leftovers(node.name):
            killed = await self._link.kill_on(node.name, run_id, attempt, job_ids)
            if killed is None:
                return False
            if killed:
                nothing = False
                words = "%s: %d leftovers of attempts up to %d of %s were killed"
                log.warning(words, node.name, killed, attempt, run_id)
        return nothing

    async def _slurmd_answers(self, node: Node) -> bool:
        known = self._table.slurm_nodes.get(node.name)
        return (
            known is not None
            and await ask(address_of(known.address, node.address), known.port) == "up"
        )

    async def _serves_again(self, name: str) -> bool:
        try:
            self._table.take(await self._slurm.nodes())
            known = self._table.slurm_nodes.get(name)
            if known is None or known.serves:
                return known is not None
            if may_be_resumed(known):
                await self._slurm.set_node(name, "resume")
        except SlurmError as error:
            log.warning("%s cannot be given back to Slurm yet: %s", name, error)
        return False


def may_be_resumed(node: SlurmNode) -> bool:
    """Whether only Slurm or we set the node down, because it was away.

    A node that a person drained, or that is under repair, stays as it is.
    """
    return (
        not node.under_repair
        and node.base in ("down", "idle")
        and "drain" not in node.flags
        and node.reason.lower().startswith(OUR_REASONS)
    )
