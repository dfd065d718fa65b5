"""Writes the addresses of a job's nodes for the job, also of nodes that it still waits for."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping

from trainyard_agent.host.background import Background
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempt_files import write_hosts
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.nodes.node_table import NodeTable

log = logging.getLogger(__name__)

# Nodes that are linked within this time are told to a job together.
HOSTS_SECONDS = 0.05
LAST_PAUSE_SECONDS = 10.0


class Hosts:
    """Writes the file `hosts` of the attempts that may wait for a node."""

    def __init__(self, attempts: Attempts, table: NodeTable) -> None:
        self._attempts, self._table = attempts, table
        self._background = Background()

    def addresses(self) -> dict[str, str]:
        """The addresses of the nodes that are set up; a job waits for any other node of its own."""
        if self._table.come_and_go:  # what Slurm knows may be another machine's
            linked = {n: node.address for n, node in self._table.nodes.items() if node.connected}
            return with_addresses(linked)
        unready = self._table.unready()
        known = self._table.slurm_nodes.items()
        hosts = {name: node.address for name, node in known if name not in unready}
        hosts |= {name: node.address for name, node in self._table.nodes.items() if node.address}
        return with_addresses(hosts)

    def members_changed(self) -> None:
        """Write the addresses again: Slurm's nodes changed, or a job's node may be set up now."""
        for attempt in self._attempts.active():
            if not attempt.stepped:
                self.rewrite(attempt)

    def rewrite(self, attempt: Attempt) -> None:
        attempt.hosts_stale = True
        if not attempt.writes_hosts:
            attempt.writes_hosts = True
            self._background.spawn(self._write(attempt))

    async def _write(self, attempt: Attempt) -> None:
        """Write the file after a moment, and try again until that works.

        The moment is there because after this agent's restart thousands of nodes are linked within
        a second.
        """
        pause = HOSTS_SECONDS
        while attempt.hosts_stale and attempt.active:
            await asyncio.sleep(pause)
            attempt.hosts_stale = False
            try:
                await asyncio.to_thread(write_hosts, attempt.directory, self.addresses())
            except OSError as error:
                words = "the addresses of new nodes cannot be written for %s yet: %s"
                log.warning(words, attempt.run_id, error)
                attempt.hosts_stale, pause = True, min(LAST_PAUSE_SECONDS, 2 * pause)
        attempt.writes_hosts = False


def with_addresses(hosts: Mapping[str, str]) -> dict[str, str]:
    """The hosts without those that have only a name in Slurm, and no address."""
    return {
        name: address for name, address in hosts.items() if re.fullmatch(r"[0-9a-fA-F.:]+", address)
    }
