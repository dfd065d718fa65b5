"""Which nodes Slurm has: the source of ClusterReady and NodesChanged."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.nodes.activity import Jobs
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_agent.nodes.returns import OURS, may_be_resumed
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.cluster_events import ClusterReady, NodesChanged
from trainyard_contracts.node_events import NodeReturned

log = logging.getLogger(__name__)

#: Between two looks at Slurm's list of nodes until the cluster is ready.
UNREADY_SECONDS = 0.3
#: Between two looks at Slurm's list of nodes while a job goes on.
BUSY_SECONDS = 3.0
#: Between two looks at Slurm's list of nodes while no job goes on.
IDLE_SECONDS = 10.0
#: In the store: the nodes that Slurm had when the control plane was told last.
MEMBERS = "slurm-nodes"
#: One event names so many nodes that were added or removed. It carries the whole list besides, and
#: of the largest cluster more would pass AWS's 256 KB.
CHANGES_TOLD = 2000
#: A slurmctld that crashed gave a job's number to the next job, and drained the node that knew the
#: older one. No drain by a person says so.
DUPLICATE = "duplicate jobid"


class Members:
    """Looks at Slurm's nodes again and again."""

    def __init__(
        self,
        config: AgentConfig,
        slurm: Slurm,
        reporter: Reporter,
        table: NodeTable,
        jobs: Jobs,
        on_change: Callable[[], None],
    ) -> None:
        self._config, self._slurm, self._reporter = config, slurm, reporter
        self._table, self._jobs, self._on_change = table, jobs, on_change
        self._seen: list[str] = []

    async def refresh(self) -> None:
        """Ask Slurm about its nodes; report ClusterReady once, when all that are expected serve."""
        while True:
            try:
                asked_at = time.monotonic()
                self._table.take(await self._slurm.nodes(), asked_at)
                self._let_go()
                await self._give_back()
            except SlurmError as error:
                log.warning("Slurm does not say how its nodes are: %s", error)
            ready = self._reporter.store.flag("ready") is not None or self._report_ready()
            if ready:
                self.follow()
            self._table.look.clear()
            try:
                await asyncio.wait_for(self._table.look.wait(), self._pause(ready))
            except asyncio.TimeoutError:
                continue

    def _pause(self, ready: bool) -> float:
        if not ready:
            return UNREADY_SECONDS
        return BUSY_SECONDS if self._jobs.busy() else IDLE_SECONDS

    def _let_go(self) -> None:
        """Nodes that are powered down are no losses.

        A lost one is as good as new then: when a job needs it, it gets another machine.
        """
        if not self._table.come_and_go:
            return
        for name, node in list(self._table.nodes.items()):
            known = self._table.slurm_nodes.get(name)
            if known is None or not known.away or node.connected:
                continue
            if node.state != "lost":
                log.info("%s is powered down (%s)", name, known.state)
                self._table.let_go(name)
            elif known.base == "idle":
                log.info("%s is powered down, and no loss any more", name)
                back = self._reporter.make(NodeReturned, about=self._table.evidence(name))
                self._table.let_go(name, back)

    async def _give_back(self) -> None:
        """Resume a node that serves and that Slurm keeps from jobs by mistake; it never does so
        itself.
        """
        for name, known in self._table.slurm_nodes.items():
            mistake = drained_by_mistake(known) or down_by_mistake(known)
            if mistake and self._table.serving(name):
                log.warning("%s: Slurm keeps it out (%s): it is given back", name, known.reason)
                await self._slurm.set_node(name, "resume")

    def follow(self) -> None:
        """Report a changed list of nodes, once two looks agree.

        HyperPod rewrites Slurm's files while Slurm reads them.
        """
        names = sorted(self._table.slurm_nodes)
        steady, self._seen = names == self._seen, names
        stored = self._reporter.store.flag(MEMBERS)
        if not names or not steady or stored == json.dumps(names):
            return
        if stored is None:
            self._reporter.report(change=lambda db: _keep(db, names))
        else:
            reported = set(json.loads(stored))
            while reported != set(names):
                reported = self._tell(names, reported)
        self._on_change()

    def _tell(self, names: Collection[str], before: set[str]) -> set[str]:
        """Report as many changes as fit into an event; returns the list as reported by now."""
        removed, added = changes(names, before)
        gone = [name for name in removed if self._table.forget(name)]
        reported = sorted((before - set(removed)).union(added))

        def change(connection: sqlite3.Connection) -> None:
            _keep(connection, reported)
            connection.executemany("DELETE FROM nodes WHERE node = ?", [(name,) for name in gone])

        log.warning(
            "Slurm's nodes changed: removed %s, added %s",
            ", ".join(removed) or "none",
            ", ".join(added) or "none",
        )
        event = self._reporter.make(
            NodesChanged,
            nodes=reported,
            added=added,
            removed=removed,
            partitions=partition_sizes(reported, self._table.slurm_nodes),
        )
        self._reporter.report(event, change=change)
        return set(reported)

    def _report_ready(self) -> bool:
        known = self._table.slurm_nodes
        linked = {name for name, node in self._table.nodes.items() if node.connected}
        serving = [name for name in sorted(linked) if name in known and known[name].serves]
        least = 0 if self._table.come_and_go and known else 1
        if len(serving) < max(least, self._config.expected_workers):
            return False

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO flags VALUES('ready', '1')")
            # From now on we report changes, also one before the list was seen twice.
            connection.execute(
                "INSERT OR IGNORE INTO flags VALUES(?, ?)", (MEMBERS, json.dumps(sorted(known)))
            )

        self._reporter.report(self._reporter.make(ClusterReady, nodes=serving), change=change)
        log.info("the cluster is ready: %s", ", ".join(serving))
        return True


def changes(names: Collection[str], before: Collection[str]) -> tuple[list[str], list[str]]:
    """Removed and added nodes, as many as one event can carry, the removed ones first."""
    removed = sorted(set(before).difference(names))[:CHANGES_TOLD]
    return removed, sorted(set(names).difference(before))[: CHANGES_TOLD - len(removed)]


def partition_sizes(names: Iterable[str], nodes: Mapping[str, SlurmNode]) -> dict[str, int]:
    """How many of these nodes are in each partition."""
    found = [nodes[name] for name in names if name in nodes]
    return dict(Counter(partition for node in found for partition in node.partitions))


def down_by_mistake(node: SlurmNode) -> bool:
    """Whether we set the node down as lost: one that came back in that moment stays down."""
    return may_be_resumed(node) and not node.serves and node.reason.startswith(OURS)


def drained_by_mistake(node: SlurmNode) -> bool:
    """Whether Slurm drained the node, now idle, because it gave a job's number out twice.

    The older job on it was killed before the next was submitted.
    """
    drained = node.base in ("idle", "down") and "drain" in node.flags and not node.under_repair
    return drained and node.reason.lower().startswith(DUPLICATE)


def _keep(connection: sqlite3.Connection, names: Collection[str]) -> None:
    row = (MEMBERS, json.dumps(list(names)))
    connection.execute("INSERT OR REPLACE INTO flags VALUES(?, ?)", row)
