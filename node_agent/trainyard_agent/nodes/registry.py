"""Takes what the nodes' agents send over their links, and hands each thing to the part for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.background import Background
from trainyard_agent.nodes.node_table import Node, NodeTable
from trainyard_agent.nodes.returns import Returns
from trainyard_agent.nodes.silence import SilenceWatch
from trainyard_agent.nodes.verdicts import Verdicts
from trainyard_contracts.heartbeats import NodeSample
from trainyard_contracts.node_events import AgentBack

log = logging.getLogger(__name__)


class Registry:
    """link_server.Beats. Runs in the controller's event loop.

    on_linked: a node is linked; whether for the first time. on_restarted: a node was off and is
    back, so whatever ran there before that moment (monotonic) is gone. on_notice: EC2 takes the
    node's instance back at a time; it is said again with each beat.
    """

    def __init__(
        self,
        reporter: Reporter,
        table: NodeTable,
        silence: SilenceWatch,
        returns: Returns,
        verdicts: Verdicts,
        on_linked: Callable[[str, bool], None],
        on_restarted: Callable[[str, float], None],
        on_notice: Callable[[str, str, str], None] = lambda node, instance, at: None,
    ) -> None:
        self._reporter, self._table, self._silence = reporter, table, silence
        self._returns, self._verdicts = returns, verdicts
        self._on_linked, self._on_restarted = on_linked, on_restarted
        self._on_notice = on_notice
        self._background = Background()

    def is_at(self, name: str, host: str, address: str) -> bool:
        return self._table.come_and_go and self._table.is_at(name, host, address)

    def linked(self, name: str, instance_id: str, address: str) -> None:
        first = name not in self._table.nodes
        node = self._table.nodes.setdefault(name, Node(name))
        if node.state in ("linked", "silent"):
            self._silence.heard(node)
        node.connected, node.address = True, address
        node.last_beat = node.heard = time.monotonic()
        node.stop()
        self._on_linked(name, first)
        if node.state == "lost":
            node.instance_id = instance_id
            node.task = self._background.spawn(self._returns.welcome_back(node))
            return
        event = (
            [self._reporter.make(AgentBack, about=self._table.evidence(name))]
            if node.state == "silent"
            else []
        )
        if node.state != "linked" or node.instance_id != instance_id:
            node.instance_id = instance_id
            self._table.report(node, "linked", *event)
            log.info("%s is linked%s", name, " again" if event else "")
        if event:
            self._background.spawn(self._returns.end_leftovers(node))

    def beat(self, name: str, message: dict[str, Any]) -> None:
        node = self._table.nodes[name]
        self._silence.heard(node)
        node.last_beat = node.heard = time.monotonic()
        if node.questions is not None:
            node.stop()
        if isinstance(message.get("sample"), dict):
            # A sample that no heartbeat could carry ends this link, and not the heartbeats.
            NodeSample.model_validate(
                {"node": name, "instanceId": "", "role": "", **message["sample"]}
            )
            node.sample = message["sample"]
        if isinstance(message.get("boot"), str) and message["boot"] != node.boot:
            if node.boot:
                self._on_restarted(name, node.silent_since)
            node.boot = message["boot"][:64]
        if isinstance(message.get("endsAt"), str):
            self._on_notice(name, node.instance_id, message["endsAt"][:40])
        if isinstance(message.get("verdicts"), dict):
            self._verdicts.take(name, message["verdicts"])

    def unlinked(self, name: str) -> None:
        node = self._table.nodes[name]
        node.connected = False
        if node.state == "lost":
            node.stop()
        elif node.questions is None:
            self._silence.doubt(node, time.monotonic())
