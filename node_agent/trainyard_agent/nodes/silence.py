"""Finds out why a node is silent, and reports silent and lost nodes: the source of NodeLost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import Protocol

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.background import Background
from trainyard_agent.nodes.activity import Jobs, named
from trainyard_agent.nodes.census import Census, census, unasked
from trainyard_agent.nodes.lateness import Attention
from trainyard_agent.nodes.liveness import Signals, judge
from trainyard_agent.nodes.node_table import Node, NodeTable
from trainyard_agent.nodes.questions import Questions, address_of
from trainyard_agent.nodes.signals import signals_of, why_not_lost
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.node_events import AgentSilent, NodeLost

log = logging.getLogger(__name__)

WATCH_SECONDS = 0.2
#: A node is asked when its newest beat is older than so many intervals of its beats.
LATE_BEATS = 1.5
#: How long an agent may take for the answer to an echo before its node is doubted.
ECHO_SECONDS = 0.3
# This much later than planned, this process itself stood still, or its machine did. What it knows
# is then old.
STILL_SECONDS = 0.5
#: So many looks a second all silent nodes get together, however many they are.
LOOKS_A_SECOND = 2000
# So many turns of the loop bring what lies in a socket to the one who waits for it: after a stall
# beats and answers are there, and not read yet.
TURNS_TO_READ = 12
# What is known of all nodes together is counted anew after so long for each of them.
CENSUS_SECONDS_A_NODE = 0.0001


class Link(Protocol):
    def drop(self, node: str) -> None:
        """Close a connection that is open but says nothing any more."""
        ...

    async def echo(self, nodes: Collection[str], seconds: float) -> set[str]:
        """Those whose agents answer at once."""
        ...


class SilenceWatch:
    """Asks and judges, from the first doubt of a node until it is heard again or lost."""

    def __init__(
        self, config: AgentConfig, reporter: Reporter, table: NodeTable, link: Link, jobs: Jobs
    ) -> None:
        self._config, self._reporter = config, reporter
        self._table, self._link, self._jobs = table, link, jobs
        self._counted = Census(float("-inf"), 0, ())
        self._attention = Attention()
        self._background = Background()

    async def confirm(self, names: Collection[str]) -> None:
        """Doubt those of these nodes whose agents do not answer now.

        A job that ended may have ended because of one of them.
        """
        nodes = self._table.nodes
        linked = [name for name in names if (node := nodes.get(name)) and unasked(node)]
        for name in set(linked) - await self._link.echo(linked, ECHO_SECONDS):
            node = nodes.get(name)  # Slurm may have lost it meanwhile
            if node is not None and unasked(node) and node.state != "lost":
                self.doubt(node, node.last_beat)

    def heard(self, node: Node) -> None:
        """A beat is here, or a new link: note how late it is."""
        now = time.monotonic()
        gap = now - node.last_beat - self._attention.missed(node.last_beat)
        node.late.note(gap - self._config.beat_seconds)

    def doubt(self, node: Node, silent_since: float) -> None:
        """Look into a node's silence from now on."""
        node.stop()
        node.silent_since, node.slurmd, node.held = silent_since, "unknown", False
        node.questions = Questions()
        node.task = self._background.spawn(self._investigate(node, node.questions))

    async def _investigate(self, node: Node, questions: Questions) -> None:
        """Ask and judge until the node is heard again (this task is cancelled) or lost."""
        pause = 0.0
        try:
            while True:
                began = time.monotonic()
                await questions.wait(pause)
                now = time.monotonic()
                if self._attention.woke(began + pause, now):
                    for _ in range(TURNS_TO_READ):
                        await asyncio.sleep(0)
                    await questions.wait(0.0)
                if now - began > pause + STILL_SECONDS:
                    # This process did not run for a while, so it cannot know who was silent then.
                    questions.forget()
                    node.silent_since = time.monotonic()
                pause = self._look_at(node, questions)
                if node.state == "lost":
                    return
        finally:
            questions.close()

    def _look_at(self, node: Node, questions: Questions) -> float:
        """Judge, report, ask once more if it is time; seconds until the next look."""
        now = time.monotonic()
        node.heard, node.slurmd = max(node.heard, questions.heard), questions.slurmd(now)
        while questions.took:
            node.late.note(questions.took.pop())
        verdict = judge(self._signals(node, questions, now))
        if verdict == "lost" and self._may_be_powered_down(node):
            verdict = "wait"
        node.held = verdict == "held"
        if verdict == "again":
            node.silent_since = now
            questions.forget()
        unheard = self._unheard(node, now)
        patience = self._config.silent_after_seconds + node.late.usual()
        if node.connected and (verdict != "wait" or unheard > patience):
            log.warning("%s is connected, but has not beaten for %.1f s", node.name, unheard)
            node.connected = False
            self._link.drop(node.name)
        if verdict == "lost":
            self._report_lost(node)
            return 0.0
        if verdict in ("silent", "held") and node.state != "silent":
            self._report_silent(node, held=verdict == "held")
        return self._ask(node, questions, now)

    def _may_be_powered_down(self, node: Node) -> bool:
        """Whether Slurm has to say first that it did not end the node, which no job needs."""
        table = self._table
        if not table.come_and_go or self._jobs.on_node(node.name) is not None:
            return False
        known = table.slurm_nodes.get(node.name)
        if table.asked_at > node.silent_since and known is not None and not known.away:
            return False
        table.look.set()
        return True

    def _ask(self, node: Node, questions: Questions, now: float) -> float:
        """One more question, if it is time; seconds until the next."""
        known, silent = self._table.slurm_nodes.get(node.name), self._census(now).silent
        look = max(WATCH_SECONDS, silent / LOOKS_A_SECOND)
        if known is None:
            return look
        calm = node.state == "silent"
        if questions.pause(now, silent, calm=calm) <= 0:
            questions.ask(address_of(known.address, node.address), known.port)
        return min(look, questions.pause(now, silent, calm=calm))

    def _census(self, now: float) -> Census:
        """The census, which is kept for a moment.

        To count all nodes anew for each of thousands of silent nodes would take too long.
        """
        nodes = self._table.nodes
        if now - self._counted.at > CENSUS_SECONDS_A_NODE * len(nodes):
            self._counted = census(nodes.values(), now)
        return self._counted

    def _signals(self, node: Node, questions: Questions, now: float) -> Signals:
        others = [heard for heard, name in self._census(now).heard if name != node.name]
        return signals_of(
            node,
            questions,
            self._jobs.on_node(node.name),
            alone=now - others[0] if others else None,
            missed=self._attention.missed,
            silent_after=self._config.silent_after_seconds,
            now=now,
        )

    def _report_lost(self, node: Node) -> None:
        activity = self._jobs.on_node(node.name)
        evidence = self._table.evidence(node.name)
        if activity is not None:
            evidence = evidence.changed(detail=f"{evidence.detail}; training stands still or ended")
        node.task = node.questions = None
        event = self._reporter.make(NodeLost, about=evidence, **named(activity))
        self._table.report(node, "lost", event)
        log.warning("node %s is lost: %s", node.name, evidence.detail)

    def _report_silent(self, node: Node, *, held: bool) -> None:
        activity, evidence = self._jobs.on_node(node.name), self._table.evidence(node.name)
        why = why_not_lost(activity, evidence, held=held, now=time.monotonic())
        if why:
            evidence = evidence.changed(detail=f"{evidence.detail}; {why}")
        event = self._reporter.make(AgentSilent, about=evidence, **named(activity))
        self._table.report(node, "silent", event)
        log.warning("the agent of %s is silent: %s", node.name, evidence.detail)

    async def watch(self) -> None:
        """Notice beats that stop on an open connection.

        And nodes that never came back after this agent's own restart.
        """
        for node in self._table.nodes.values():
            if not node.connected and node.state in ("linked", "silent") and node.task is None:
                node.last_beat = time.monotonic()
                self.doubt(node, node.last_beat)
        before = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = time.monotonic()
            self._attention.woke(before + WATCH_SECONDS, now)
            if now - before > WATCH_SECONDS + STILL_SECONDS:
                # The beats lie unread in the sockets, so nobody was silent.
                for node in self._table.nodes.values():
                    node.last_beat = max(node.last_beat, now)
            before = now
            late = LATE_BEATS * self._config.beat_seconds
            for node in self._table.nodes.values():
                if unasked(node) and self._unheard(node, now) > late:
                    self._late(node)

    def _unheard(self, node: Node, now: float) -> float:
        gap = now - node.last_beat
        # Stalls are looked up only for those of whom they may matter: there may be thousands.
        if gap <= self._config.beat_seconds:
            return gap
        return gap - self._attention.missed(node.last_beat)

    def _late(self, node: Node) -> None:
        if node.state != "lost":
            self.doubt(node, node.last_beat)
        elif time.monotonic() - node.last_beat > self._config.silent_after_seconds:
            # The lost node was coming back, and fell silent again.
            node.connected = False
            node.stop()
            self._link.drop(node.name)
