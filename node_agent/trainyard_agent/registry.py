"""What the controller's agent knows of every node, and who is lost, silent or back: the source of NodeLost and its kin."""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from trainyard_agent.background import Background
from trainyard_agent.liveness import Signals, judge
from trainyard_agent.questions import Questions, Slurmd, address_of, ask
from trainyard_agent.reporting import Reporter
from trainyard_agent.slurm import Slurm, SlurmError, SlurmNode
from trainyard_contracts.events import (
    AgentBack,
    AgentSilent,
    ClusterReady,
    NodeEvidence,
    NodeLost,
    NodeReturned,
    NodeSample,
    NodesChanged,
    NodeUnhealthy,
)  # fmt: skip
from trainyard_contracts.files import AgentConfig

log = logging.getLogger(__name__)

WATCH_SECONDS = 0.2
#: A beat that is late by half an interval is reason to ask.
LATE_BEATS = 1.5
#: How long an agent may take for the answer to an echo before its node is doubted.
ECHO_SECONDS = 0.3
#: This much later than planned, this process itself stood still (stopped, or its machine was): what it knows is old, not what is.
STILL_SECONDS = 0.5
#: Where thousands are silent at once, all together are looked into so often, and each of them less often.
LOOKS_A_SECOND = 2000
#: What is known of all nodes together is counted anew after so long for each of them.
CENSUS_SECONDS_A_NODE = 0.0001
#: Slurm sets such nodes down and never takes them back by itself; we do, once agent and slurmd answer again.
OUR_REASONS = ("trainyard", "not responding", "node unexpectedly rebooted")
#: In the store: the nodes that Slurm had when the control plane was told last.
MEMBERS = "slurm-nodes"
#: Nodes that one event says were added or removed; beside the whole list of the largest cluster more would pass AWS's 256 KB.
CHANGES_TOLD = 2000
REASON = "trainyard: node lost"
#: A slurmctld that crashed gave a job's number to the next job, and drained the node that knew the older one. No drain by a person says so.
DUPLICATE = "duplicate jobid"


@dataclass(frozen=True)
class Activity:
    """A job that uses a node: which, whether it left Slurm, when it last stepped (monotonic), how long its steps take."""

    run_id: str
    attempt: int
    ended: bool
    stepped_at: float | None
    step_seconds: float | None


class Jobs(Protocol):
    def on_node(self, node: str) -> Activity | None:
        """The active attempt whose job uses the node."""
        ...

    def busy(self) -> bool:
        """Whether any attempt is active."""
        ...

    def restarted(self, node: str, off_at: float) -> None:
        """The node was off and is back: whatever ran there before `off_at` (monotonic) is gone."""
        ...

    def leftovers(self, node: str) -> list[tuple[str, int, list[str]]]:
        """Run, newest attempt that is over, and its and the older ones' jobs, where the node may still run such an attempt."""
        ...


class Link(Protocol):
    def drop(self, node: str) -> None:
        """Close a connection that is open but says nothing any more."""
        ...

    async def echo(self, nodes: Collection[str], seconds: float) -> set[str]:
        """Those whose agents answer at once."""
        ...

    async def kill_on(
        self, node: str, run_id: str, attempt: int, job_ids: Collection[str]
    ) -> int | None:
        """How many leftovers the node's agent killed; None if it does not answer."""
        ...


@dataclass
class Node:
    """`state` is what was reported: 'unknown' never linked, 'linked', 'silent' (AgentSilent), 'lost' (NodeLost)."""

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
    #: While its silence is looked into.
    questions: Questions | None = None
    held: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def suspect(self) -> bool:
        """Not heard, and it is not yet known what that means. A daemon that dies may still seem to answer once."""
        return (
            self.state in ("linked", "silent")
            and self.questions is not None
            and self.questions.answers < 2
        )

    def stop(self) -> None:
        """End what is going on about it."""
        if self.task is not None:
            self.task.cancel()
        self.task = self.questions = None


@dataclass(frozen=True)
class Census:
    """All nodes at a moment: how many are being looked into, and the two that were heard last, the newest first."""

    at: float
    silent: int
    heard: Sequence[tuple[float, str]]


class Registry:
    """Nodes by Slurm name. Runs in the controller's event loop."""

    def __init__(self, config: AgentConfig, slurm: Slurm, reporter: Reporter, jobs: Jobs) -> None:
        self._config, self._slurm, self._reporter, self._jobs = config, slurm, reporter, jobs
        self.nodes: dict[str, Node] = {}
        self.slurm_nodes: dict[str, SlurmNode] = {}
        self.changed = asyncio.Event()
        self.look = asyncio.Event()
        self.link: Link
        self.on_members: Callable[[], None] = lambda: None
        self.on_linked: Callable[[str, bool], None] = lambda name, first: None
        self._members_seen: list[str] = []
        self._counted = Census(float("-inf"), 0, ())
        self._verdicts: dict[tuple[str, str], str] = {}
        self._background = Background()
        self._load()

    def _load(self) -> None:
        connection = self._reporter.store.connection
        for name, state, instance in connection.execute("SELECT node, state, instance FROM nodes"):
            self.nodes[name] = Node(name, state, instance)
        for node, check, severity in connection.execute(
            "SELECT node, name, severity FROM verdicts"
        ):
            self._verdicts[node, check] = severity

    # -- what the link says (link_server.Beats) ---------------------------------------------------
    def linked(self, name: str, instance_id: str, address: str) -> None:
        first = name not in self.nodes
        node = self.nodes.setdefault(name, Node(name))
        node.connected, node.address = True, address
        node.last_beat = node.heard = time.monotonic()
        node.stop()
        self.on_linked(name, first)
        if node.state == "lost":
            node.instance_id = instance_id
            node.task = self._background.spawn(self._welcome_back(node))
            return
        event = (
            [self._reporter.make(AgentBack, about=self.evidence(name))]
            if node.state == "silent"
            else []
        )
        if node.state != "linked" or node.instance_id != instance_id:
            node.instance_id = instance_id
            self._set(node, "linked", *event)
            log.info("%s is linked%s", name, " again" if event else "")
        if event:
            self._background.spawn(self._end_leftovers(node))

    def beat(self, name: str, message: dict[str, Any]) -> None:
        node = self.nodes[name]
        node.last_beat = node.heard = time.monotonic()
        if node.questions is not None:
            node.stop()
        if isinstance(message.get("sample"), dict):
            sample = {"node": name, "instanceId": "", "role": "", **message["sample"]}
            NodeSample.model_validate(
                sample
            )  # one that no heartbeat could carry ends this link, not the heartbeats
            node.sample = message["sample"]
        if isinstance(message.get("boot"), str) and message["boot"] != node.boot:
            if node.boot:
                self._jobs.restarted(name, node.silent_since)
            node.boot = message["boot"][:64]
        if isinstance(message.get("verdicts"), dict):
            self.take_verdicts(name, message["verdicts"])

    def unlinked(self, name: str) -> None:
        node = self.nodes[name]
        node.connected = False
        if node.state == "lost":
            node.stop()
        elif node.questions is None:
            self._doubt(node, time.monotonic())

    def take_verdicts(self, name: str, verdicts: dict[str, Any]) -> None:
        """Report every check whose severity changed."""
        for check, value in verdicts.items():
            severity, detail = (str(part) for part in value)
            if (
                severity not in ("healthy", "warning", "error")
                or self._verdicts.get((name, check), "healthy") == severity
            ):
                continue
            self._verdicts[name, check] = severity
            activity = self._jobs.on_node(name)
            event = self._reporter.make(
                NodeUnhealthy, check=check, severity=severity, detail=f"{name}: {detail}", **_of(activity)
            )  # fmt: skip
            event = event.changed(node=name)
            row = (name, check, severity, detail)
            self._reporter.report(event, change=partial(_keep_verdict, row))
            log.warning("%s: check %s is %s: %s", name, check, severity, detail)

    # -- judging ----------------------------------------------------------------------------------
    def suspicious(self, name: str) -> bool:
        """It is not yet known whether this node lives."""
        node = self.nodes.get(name)
        return node is not None and node.suspect

    def set_up(self, name: str) -> bool:
        """Its agent, which is the last thing that starts when a node is set up, was linked once."""
        return name in self.nodes

    def unready(self) -> set[str]:
        """Nodes that Slurm has already and that are still being set up."""
        return {name for name in self.slurm_nodes if not self.set_up(name)}

    def lost(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.state == "lost"

    def serving(self, name: str) -> bool:
        """It is linked now, and not only just coming back."""
        node = self.nodes.get(name)
        return node is not None and node.connected and node.state == "linked"

    async def confirm(self, names: Collection[str]) -> None:
        """Doubt those of these nodes whose agents do not answer now: a job that ended may have ended because of one of them."""
        linked = [
            name
            for name in names
            if (node := self.nodes.get(name)) and node.connected and node.questions is None
        ]
        for name in set(linked) - await self.link.echo(linked, ECHO_SECONDS):
            node = self.nodes.get(name)  # Slurm may have lost it meanwhile
            if (
                node is not None
                and node.connected
                and node.questions is None
                and node.state != "lost"
            ):
                self._doubt(node, node.last_beat)

    def _doubt(self, node: Node, silent_since: float) -> None:
        node.stop()
        node.silent_since, node.slurmd, node.questions, node.held = (
            silent_since,
            "unknown",
            Questions(),
            False,
        )
        node.task = self._background.spawn(self._investigate(node, node.questions))

    async def _investigate(self, node: Node, questions: Questions) -> None:
        """Ask and judge until the node is heard again (this task is cancelled) or lost."""
        pause = 0.0
        try:
            while True:
                began = time.monotonic()
                await questions.wait(pause)
                if time.monotonic() - began > pause + STILL_SECONDS:
                    # This process stood still; what was silent meanwhile is not known.
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
        verdict = judge(self._signals(node, questions, now))
        node.held = verdict == "held"
        if verdict == "again":
            node.silent_since = now
            questions.forget()
        if node.connected and (
            verdict != "wait" or now - node.last_beat > self._config.silent_after_seconds
        ):
            log.warning(
                "%s is connected, but has not beaten for %.1f s", node.name, now - node.last_beat
            )
            node.connected = False
            self.link.drop(node.name)
        if verdict == "lost":
            self._report_lost(node)
            return 0.0
        if verdict in ("silent", "held") and node.state != "silent":
            self._report_silent(node, held=verdict == "held")
        return self._ask(node, questions, now)

    def _ask(self, node: Node, questions: Questions, now: float) -> float:
        """One more question, if it is time; seconds until the next."""
        known, silent = self.slurm_nodes.get(node.name), self._census(now).silent
        look = max(WATCH_SECONDS, silent / LOOKS_A_SECOND)
        if known is None:
            return look
        calm = node.state == "silent"
        if questions.pause(now, silent, calm=calm) <= 0:
            questions.ask(address_of(known.address, node.address), known.port)
        return min(look, questions.pause(now, silent, calm=calm))

    def _census(self, now: float) -> Census:
        """Kept for a moment: for each of thousands of silent nodes to go through all of them, a second is too short."""
        if now - self._counted.at > CENSUS_SECONDS_A_NODE * len(self.nodes):
            silent = sum(node.questions is not None for node in self.nodes.values())
            answering = (
                (node.heard, node.name)
                for node in self.nodes.values()
                if node.state in ("linked", "silent")
            )
            self._counted = Census(now, silent, heapq.nlargest(2, answering))
        return self._counted

    def _signals(self, node: Node, questions: Questions, now: float) -> Signals:
        activity = self._jobs.on_node(node.name)
        others = [heard for heard, name in self._census(now).heard if name != node.name]
        return Signals(
            unheard=now - node.silent_since,
            closed=not node.connected,
            refusals=questions.refusals,
            answers=questions.answers,
            questions=len(questions.open),
            unanswered=questions.unanswered(now),
            answered=questions.heard > 0,
            quiet=None
            if activity is None
            else now - max(node.silent_since, activity.stepped_at or 0.0),
            step_seconds=activity.step_seconds if activity else None,
            job_ended=bool(activity and activity.ended),
            alone=now - others[0] if others else None,
            held=node.held,
            silent_after=self._config.silent_after_seconds,
        )

    def evidence(self, name: str) -> NodeEvidence:
        """What is known of a node now."""
        node = self.nodes.get(name, Node(name))
        agent: Literal["linked", "silent", "unknown"] = (
            "linked" if node.connected else "unknown" if node.state == "unknown" else "silent"
        )
        scheduler: Literal["up", "down", "unknown"] = "unknown"
        if not node.connected and node.slurmd in ("refused", "silent"):
            scheduler = "down"
        elif name in self.slurm_nodes and (node.connected or node.slurmd == "up"):
            scheduler = "up"
        detail = (
            ""
            if node.connected
            else f"no beat for {time.monotonic() - node.last_beat:.1f} s; {_SLURMD[node.slurmd]}"
        )
        return NodeEvidence(
            node=name, instance_id=node.instance_id, agent=agent, scheduler=scheduler, detail=detail
        )

    def _report_lost(self, node: Node) -> None:
        activity = self._jobs.on_node(node.name)
        evidence = self.evidence(node.name)
        if activity is not None:
            evidence = evidence.changed(detail=f"{evidence.detail}; training stands still or ended")
        node.task = node.questions = None
        self._set(node, "lost", self._reporter.make(NodeLost, about=evidence, **_of(activity)))
        log.warning("node %s is lost: %s", node.name, evidence.detail)

    def _report_silent(self, node: Node, *, held: bool) -> None:
        activity, evidence = self._jobs.on_node(node.name), self.evidence(node.name)
        why = ""
        if held:
            why = "no other node is heard either, so it may be this controller's own link"
        elif (
            evidence.scheduler != "up" and activity is not None and activity.stepped_at is not None
        ):
            why = f"training stepped {time.monotonic() - activity.stepped_at:.1f} s ago"
        if why:
            evidence = evidence.changed(detail=f"{evidence.detail}; {why}")
        self._set(node, "silent", self._reporter.make(AgentSilent, about=evidence, **_of(activity)))
        log.warning("the agent of %s is silent: %s", node.name, evidence.detail)

    async def _welcome_back(self, node: Node) -> None:
        """A lost node's agent is linked again: end what is left there, give it back to Slurm once slurmd answers, then report it."""
        pause = 0.1
        while True:
            if (
                await self._end_leftovers(node)
                and await self._slurmd_answers(node)
                and await self._serves_again(node.name)
            ):
                node.task = None
                return self._set(
                    node,
                    "linked",
                    self._reporter.make(NodeReturned, about=self.evidence(node.name)),
                )
            await asyncio.sleep(pause)
            pause = min(5.0, pause * 1.5)

    async def _slurmd_answers(self, node: Node) -> bool:
        known = self.slurm_nodes.get(node.name)
        return (
            known is not None
            and await ask(address_of(known.address, node.address), known.port) == "up"
        )

    async def _end_leftovers(self, node: Node) -> bool:
        """What ended while the node was not heard may still run there. Whether its agent looked and found nothing to kill.

        A process that was killed may take seconds to give back what it held; it is looked for again.
        """
        nothing = True
        for run_id, attempt, job_ids in self._jobs.leftovers(node.name):
            killed = await self.link.kill_on(node.name, run_id, attempt, job_ids)
            if killed is None:
                return False
            if killed:
                nothing = False
                log.warning(
                    "%s: %d leftovers of attempts up to %d of %s were killed",
                    node.name,
                    killed,
                    attempt,
                    run_id,
                )
        return nothing

    async def _serves_again(self, name: str) -> bool:
        try:
            self.slurm_nodes = await self._slurm.nodes()
            known = self.slurm_nodes.get(name)
            if known is None or known.serves or known.under_repair:
                return known is not None and known.serves
            if (
                known.base in ("down", "idle")
                and "drain" not in known.flags
                and known.reason.lower().startswith(OUR_REASONS)
            ):
                await self._slurm.set_node(name, "resume")
        except SlurmError as error:
            log.warning("%s cannot be given back to Slurm yet: %s", name, error)
        return False

    def _set(self, node: Node, state: Literal["linked", "silent", "lost"], *events: Any) -> None:
        node.state = state
        row = (node.name, state, node.instance_id)

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO nodes VALUES(?, ?, ?)", row)

        self._reporter.report(*events, change=change)
        self.changed.set()
        self.look.set()

    # -- the slow loop ----------------------------------------------------------------------------
    async def watch(self) -> None:
        """Notice beats that stop on an open connection, and nodes that never came back after this agent's own restart."""
        for node in self.nodes.values():
            if not node.connected and node.state in ("linked", "silent") and node.task is None:
                node.last_beat = time.monotonic()
                self._doubt(node, node.last_beat)
        before = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = time.monotonic()
            if now - before > WATCH_SECONDS + STILL_SECONDS:
                # The beats lie unread in the sockets, so nobody was silent.
                for node in self.nodes.values():
                    node.last_beat = max(node.last_beat, now)
            before = now
            for node in self.nodes.values():
                if (
                    node.connected
                    and node.questions is None
                    and now - node.last_beat > LATE_BEATS * self._config.beat_seconds
                ):
                    self._late(node)

    def _late(self, node: Node) -> None:
        if node.state != "lost":
            self._doubt(node, node.last_beat)
        elif time.monotonic() - node.last_beat > self._config.silent_after_seconds:
            # It was coming back, and fell silent again.
            node.connected = False
            node.stop()
            self.link.drop(node.name)

    async def refresh(self) -> None:
        """Ask Slurm about its nodes; report ClusterReady once, when all that are expected serve."""
        while True:
            try:
                self.slurm_nodes = await self._slurm.nodes()
                await self._undrain()
            except SlurmError as error:
                log.warning("Slurm does not say how its nodes are: %s", error)
            ready = self._reporter.store.flag("ready") is not None or self._report_ready()
            if ready:
                self._follow_members()
            self.look.clear()
            try:
                await asyncio.wait_for(
                    self.look.wait(), 0.3 if not ready else 3.0 if self._jobs.busy() else 10.0
                )
            except asyncio.TimeoutError:
                continue

    async def _undrain(self) -> None:
        """Slurm gives a node that it drained by its own mistake back to nobody; the older job on it was killed before the next was submitted."""
        for name, known in self.slurm_nodes.items():
            drained = (
                known.base in ("idle", "down") and "drain" in known.flags and not known.under_repair
            )
            if drained and known.reason.lower().startswith(DUPLICATE) and self.serving(name):
                log.warning("%s: Slurm drained it (%s): it is given back", name, known.reason)
                await self._slurm.set_node(name, "resume")

    def _follow_members(self) -> None:
        """Report a changed list of nodes, once two looks agree: HyperPod rewrites Slurm's files while Slurm reads them."""
        names = sorted(self.slurm_nodes)
        steady, self._members_seen = names == self._members_seen, names
        stored = self._reporter.store.flag(MEMBERS)
        if not names or not steady or stored == json.dumps(names):
            return
        if stored is None:
            self._reporter.report(
                change=lambda db: db.execute(
                    "INSERT OR REPLACE INTO flags VALUES(?, ?)", (MEMBERS, json.dumps(names))
                )
            )
        else:
            told = set(json.loads(stored))
            while told != set(names):
                told = self._tell_members(names, told)
        self.on_members()

    def _tell_members(self, names: Collection[str], before: set[str]) -> set[str]:
        """Of thousands that changed as many as an event can carry, the removed ones first; returns what was told until now."""
        removed = sorted(before.difference(names))[:CHANGES_TOLD]
        added = sorted(set(names) - before)[: CHANGES_TOLD - len(removed)]
        gone = [name for name in removed if self._forget(name)]
        told = sorted((before - set(removed)).union(added))
        partitions = Counter(
            name
            for node in told
            if node in self.slurm_nodes
            for name in self.slurm_nodes[node].partitions
        )

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO flags VALUES(?, ?)", (MEMBERS, json.dumps(told))
            )
            connection.executemany("DELETE FROM nodes WHERE node = ?", [(name,) for name in gone])

        log.warning(
            "Slurm's nodes changed: removed %s, added %s",
            ", ".join(removed) or "none",
            ", ".join(added) or "none",
        )
        event = self._reporter.make(
            NodesChanged, nodes=told, added=added, removed=removed, partitions=dict(partitions)
        )
        self._reporter.report(event, change=change)
        return set(told)

    def _forget(self, name: str) -> bool:
        """Whether a node that Slurm no longer knows is forgotten, too; one that is linked is not."""
        node = self.nodes.get(name)
        if node is None or node.connected:
            return False
        if node.task is not None:
            node.task.cancel()
        del self.nodes[name]
        return True

    def _report_ready(self) -> bool:
        names = sorted(
            name for name, node in self.nodes.items() if node.connected and name in self.slurm_nodes
        )
        serving = [name for name in names if self.slurm_nodes[name].serves]
        if len(serving) < max(1, self._config.expected_workers):
            return False

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO flags VALUES('ready', '1')")
            # What changes from now on is told, also what changes before the list was looked at twice.
            connection.execute(
                "INSERT OR IGNORE INTO flags VALUES(?, ?)",
                (MEMBERS, json.dumps(sorted(self.slurm_nodes))),
            )

        self._reporter.report(self._reporter.make(ClusterReady, nodes=serving), change=change)
        log.info("the cluster is ready: %s", ", ".join(serving))
        return True

    def samples(self, own: dict[str, Any]) -> list[NodeSample]:
        """The newest sample of every node, this controller's own first."""
        found = [NodeSample.model_validate(own)]
        for name in sorted(set(self.nodes) | set(self.slurm_nodes)):
            node = self.nodes.get(name, Node(name))
            base = {
                "node": name,
                "instanceId": node.instance_id,
                "role": "worker",
                "at": own["at"],
            } | (node.sample or {})
            evidence = self.evidence(name)
            base["agent"] = evidence.agent
            base["scheduler"] = (
                self.slurm_nodes[name].state if name in self.slurm_nodes else "unknown"
            )
            if evidence.scheduler == "down":
                base["scheduler"] = "down"
            found.append(NodeSample.model_validate(base))
        return found


_SLURMD = {
    "up": "slurmd answers",
    "refused": "slurmd's port is closed",
    "silent": "slurmd does not answer",
    "unknown": "slurmd was not asked or has not answered yet",
}


def _keep_verdict(row: tuple[str, str, str, str], connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO verdicts VALUES(?, ?, ?, ?)", row)


def _of(activity: Activity | None) -> dict[str, Any]:
    return {"run_id": activity.run_id, "attempt": activity.attempt} if activity else {}
