"""The controller's one table of nodes; all its parts read nodes from here."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.nodes.lateness import Lateness
from trainyard_agent.nodes.questions import Questions, Slurmd
from trainyard_contracts.event_bases import AgentEvent
from trainyard_contracts.heartbeats import NodeSample
from trainyard_contracts.node_evidence import NodeEvidence

_SLURMD = {
    "up": "slurmd answers",
    "refused": "slurmd's port is closed",
    "silent": "slurmd does not answer",
    "unknown": "slurmd was not asked or has not answered yet",
}


@dataclass
class Node:
    """What is known of one node.

    `state` is what was reported: 'unknown' never linked, 'linked', 'silent' (AgentSilent), 'lost'
    (NodeLost).
    """

    name: str
    state: Literal["unknown", "linked", "silent", "lost"] = "unknown"
    instance_id: str = ""
    address: str = ""
    connected: bool = False
    last_beat: float = field(default_factory=time.monotonic)
    silent_since: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    sample: dict[str, Any] | None = None
    boot: str = ""
    slurmd: Slurmd = "unknown"
    #: How late its beats, and slurmd's answers, were of late.
    late: Lateness = field(default_factory=Lateness)
    #: While its silence is looked into.
    questions: Questions | None = None
    held: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def suspect(self) -> bool:
        """The node is not heard, and we do not yet know why.

        One answer is not enough: a daemon that dies may still seem to answer once.
        """
        return (
            self.state in ("linked", "silent")
            and self.questions is not None
            and self.questions.answers < 2
        )

    def stop(self) -> None:
        """End the task that looks into the node's silence."""
        if self.task is not None:
            self.task.cancel()
        self.task = self.questions = None


class NodeTable:
    """Nodes by their names in Slurm; `slurm_nodes` is what Slurm said last of its own.

    `changed` is set when a node's state was reported, for the heartbeat; `look` for the look at
    Slurm's nodes, which then comes at once. `come_and_go`: nodes are powered up for jobs and down
    when they are idle.
    """

    def __init__(self, reporter: Reporter, *, come_and_go: bool = False) -> None:
        self._reporter, self.come_and_go = reporter, come_and_go
        self.slurm_nodes: Mapping[str, SlurmNode] = {}
        #: When Slurm was asked for them last (monotonic).
        self.asked_at = float("-inf")
        self.changed, self.look = asyncio.Event(), asyncio.Event()
        rows = reporter.store.connection.execute("SELECT node, state, instance FROM nodes")
        self.nodes = {name: Node(name, state, instance) for name, state, instance in rows}

    def take(self, known: Mapping[str, SlurmNode], asked_at: float | None = None) -> None:
        """What Slurm says of its nodes now; `asked_at`: when it was asked, if that is known."""
        self.slurm_nodes = known
        if asked_at is not None:
            self.asked_at = asked_at

    def report(
        self, node: Node, state: Literal["linked", "silent", "lost"], *events: AgentEvent
    ) -> None:
        """Change a node's state, and report it in the same transaction."""
        node.state = state
        row = (node.name, state, node.instance_id)

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO nodes VALUES(?, ?, ?)", row)

        self._reporter.report(*events, change=change)
        self.changed.set()
        self.look.set()

    def forget(self, name: str) -> bool:
        """Whether a node that Slurm no longer knows is forgotten; one that is linked is not."""
        node = self.nodes.get(name)
        if node is None or node.connected:
            return False
        if node.task is not None:
            node.task.cancel()
        del self.nodes[name]
        return True

    def suspicious(self, name: str) -> bool:
        """Whether it is not yet known if this node lives."""
        node = self.nodes.get(name)
        return node is not None and node.suspect

    def set_up(self, name: str) -> bool:
        """Whether the node's agent, which starts last on a new node, was linked once."""
        return name in self.nodes

    def unready(self) -> set[str]:
        """Nodes that Slurm has already and that are still being set up.

        One that is powered down is none: Slurm powers it up for a job, and waits for it.
        """
        return {
            name
            for name, known in self.slurm_nodes.items()
            if not self.set_up(name) and not known.away and not known.coming
        }

    def awaited(self, name: str) -> bool:
        """Whether a job with this node waits for it: it is set up, or its machine comes."""
        if self.come_and_go:
            node = self.nodes.get(name)
            return node is None or not node.connected
        return not self.set_up(name)

    def is_at(self, name: str, host: str, address: str) -> bool:
        """Whether Slurm has this node at this address, or calls its host so.

        If not, Slurm is asked anew: the node may have come a moment ago.
        """
        known = self.slurm_nodes.get(name)
        found = known is not None and (known.address == address or known.host_name == host)
        if not found:
            self.look.set()
        return found

    def replaced(self, name: str) -> bool:
        """Whether Slurm has another machine in the place of the one that was linked, or none.

        Then who manages the nodes knows already that the machine is gone.
        """
        known, node = self.slurm_nodes.get(name), self.nodes.get(name)
        if not self.come_and_go or known is None or node is None or not node.address:
            return False
        host = "ip-" + node.address.replace(".", "-")
        return node.address != known.address and host != known.host_name.partition(".")[0]

    def let_go(self, name: str, *events: AgentEvent) -> None:
        """Forget a node whose machine was ended because nobody needs it."""
        if self.forget(name):
            self._reporter.report(
                *events,
                change=lambda db: db.execute("DELETE FROM nodes WHERE node = ?", (name,)),
            )
            self.changed.set()

    def lost(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.state == "lost"

    def serving(self, name: str) -> bool:
        """Whether the node is linked and in use, and not only coming back."""
        node = self.nodes.get(name)
        return node is not None and node.connected and node.state == "linked"

    def evidence(self, name: str) -> NodeEvidence:
        """What is known of a node now."""
        node = self.nodes.get(name, Node(name))
        return evidence_of(node, in_slurm=name in self.slurm_nodes, now=time.monotonic())

    def samples(self, own: dict[str, Any]) -> list[NodeSample]:
        """The newest sample of every node, this controller's own first."""
        names = sorted(set(self.nodes) | set(self.slurm_nodes))
        return [NodeSample.model_validate(own), *(self._sample(name, own["at"]) for name in names)]

    def _sample(self, name: str, at: Any) -> NodeSample:
        """The node's own newest sample; what Slurm and the link say wins over it."""
        node, evidence = self.nodes.get(name, Node(name)), self.evidence(name)
        known = self.slurm_nodes.get(name)
        scheduler = known.state if known is not None else "unknown"
        base = {"node": name, "instanceId": node.instance_id, "role": "worker", "at": at}
        said = {
            "agent": evidence.agent,
            "scheduler": "down" if evidence.scheduler == "down" else scheduler,
        }
        return NodeSample.model_validate(base | (node.sample or {}) | said)


def evidence_of(node: Node, *, in_slurm: bool, now: float) -> NodeEvidence:
    """The same of one node; `in_slurm`: Slurm knows it."""
    agent: Literal["linked", "silent", "unknown"] = (
        "linked" if node.connected else "unknown" if node.state == "unknown" else "silent"
    )
    scheduler: Literal["up", "down", "unknown"] = "unknown"
    if not node.connected and node.slurmd in ("refused", "silent"):
        scheduler = "down"
    elif in_slurm and (node.connected or node.slurmd == "up"):
        scheduler = "up"
    beats = f"no beat for {now - node.last_beat:.1f} s; {_SLURMD[node.slurmd]}"
    return NodeEvidence(
        node=node.name,
        instance_id=node.instance_id,
        agent=agent,
        scheduler=scheduler,
        detail="" if node.connected else beats,
    )
