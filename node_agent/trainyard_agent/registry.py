"""What the controller's agent knows of every node, and who is lost, silent or back: the source of NodeLost and its kin."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from trainyard_agent.liveness import Signals, judge
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

PROBE_SECONDS = 0.7
WATCH_SECONDS = 0.5
#: This much later than planned, this process itself stood still (stopped, or its machine was): what it knows is old, not what is.
STILL_SECONDS = 0.5
#: Slurm sets such nodes down and never takes them back by itself; we do, once agent and slurmd answer again.
OUR_REASONS = ("trainyard", "not responding", "node unexpectedly rebooted")
#: In the store: the nodes that Slurm had when the control plane was told last.
MEMBERS = "slurm-nodes"
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
    sample: dict[str, Any] | None = None
    boot: str = ""
    slurmd: Literal["up", "refused", "timeout", "unknown"] = "unknown"
    task: asyncio.Task[None] | None = None

    @property
    def suspect(self) -> bool:
        """Not linked, and it is not yet known what that means."""
        return self.state == "linked" and not self.connected


class Registry:
    """Nodes by Slurm name. Runs in the controller's event loop."""

    def __init__(self, config: AgentConfig, slurm: Slurm, reporter: Reporter, jobs: Jobs) -> None:
        self._config, self._slurm, self._reporter, self._jobs = config, slurm, reporter, jobs
        self.nodes: dict[str, Node] = {}
        self.slurm_nodes: dict[str, SlurmNode] = {}
        self.changed = asyncio.Event()
        self.look = asyncio.Event()
        self.drop_link: Callable[[str], None] = lambda _node: None
        self.on_members: Callable[[], None] = lambda: None
        self._members_seen: list[str] = []
        self._verdicts: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._load()

    def _load(self) -> None:
        connection = self._reporter.store.connection
        for name, state, instance in connection.execute("SELECT node, state, instance FROM nodes"):
            self.nodes[name] = Node(name, state, instance)
        for node, check, severity in connection.execute("SELECT node, name, severity FROM verdicts"):
            self._verdicts[node, check] = severity

    # -- what the link says (link_server.Beats) ----------------------------------------------------------------------
    def linked(self, name: str, instance_id: str, address: str) -> None:
        node = self.nodes.setdefault(name, Node(name))
        node.connected, node.address, node.last_beat = True, address, time.monotonic()
        if node.task is not None:
            node.task.cancel()
            node.task = None
        if node.state == "lost":
            node.instance_id = instance_id
            node.task = self._spawn(self._welcome_back(node))
            return
        event = [self._reporter.make(AgentBack, back=name)] if node.state == "silent" else []
        if node.state != "linked" or node.instance_id != instance_id:
            node.instance_id = instance_id
            self._set(node, "linked", *event)
            log.info("%s is linked%s", name, " again" if event else "")

    def beat(self, name: str, message: dict[str, Any]) -> None:
        node = self.nodes[name]
        node.last_beat = time.monotonic()
        if isinstance(message.get("sample"), dict):
            sample = {"node": name, "instanceId": "", "role": "", **message["sample"]}
            NodeSample.model_validate(sample)  # one that no heartbeat could carry ends this link, not the heartbeats
            node.sample = message["sample"]
        if isinstance(message.get("boot"), str) and message["boot"] != node.boot:
            if node.boot:
                self._jobs.restarted(name, node.silent_since)
            node.boot = message["boot"][:64]
        if isinstance(message.get("verdicts"), dict):
            self.take_verdicts(name, message["verdicts"])

    def unlinked(self, name: str, since: float | None = None) -> None:
        node = self.nodes[name]
        node.connected = False
        node.silent_since = since or time.monotonic()
        if node.task is not None:
            node.task.cancel()
        if node.state != "lost":
            node.task = self._spawn(self._investigate(node))

    def take_verdicts(self, name: str, verdicts: dict[str, Any]) -> None:
        """Report every check whose severity changed."""
        for check, value in verdicts.items():
            severity, detail = (str(part) for part in value)
            if severity not in ("healthy", "warning", "error") or self._verdicts.get((name, check), "healthy") == severity:
                continue
            self._verdicts[name, check] = severity
            activity = self._jobs.on_node(name)
            event = self._reporter.make(
                NodeUnhealthy, check=check, severity=severity, detail=f"{name}: {detail}", **_of(activity)
            )  # fmt: skip
            event = event.model_copy(update={"node": name})
            row = (name, check, severity, detail)
            self._reporter.report(event, change=lambda db, row=row: db.execute("INSERT OR REPLACE INTO verdicts VALUES(?, ?, ?, ?)", row))  # type: ignore[misc]
            log.warning("%s: check %s is %s: %s", name, check, severity, detail)

    # -- judging -----------------------------------------------------------------------------------------------------
    def suspicious(self, name: str) -> bool:
        """It is not yet known whether this node lives."""
        node = self.nodes.get(name)
        return node is not None and node.suspect

    def lost(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.state == "lost"

    def serving(self, name: str) -> bool:
        """It is linked now, and not only just coming back."""
        node = self.nodes.get(name)
        return node is not None and node.connected and node.state == "linked"

    async def _investigate(self, node: Node) -> None:
        """Probe and judge until the node is linked again (this task is cancelled) or lost."""
        refusals = timeouts = answers = 0
        pause = 0.0
        while True:
            began = time.monotonic()
            await asyncio.sleep(pause)
            node.slurmd = await self._probe(node.name)
            if time.monotonic() - began > pause + PROBE_SECONDS + STILL_SECONDS:
                node.silent_since, refusals, timeouts, answers, pause = time.monotonic(), 0, 0, 0, 0.0
                continue
            refusals = refusals + 1 if node.slurmd == "refused" else 0
            timeouts = timeouts + 1 if node.slurmd == "timeout" else 0
            answers = answers + 1 if node.slurmd == "up" else 0
            verdict = judge(self._signals(node, refusals, timeouts, answers))
            if verdict == "lost":
                return self._report_lost(node)
            if verdict == "silent" and node.state != "silent":
                self._report_silent(node)
            pause = 2.0 if node.state == "silent" and answers else 0.05 if refusals else 0.3

    def _signals(self, node: Node, refusals: int, timeouts: int, answers: int) -> Signals:
        now, activity = time.monotonic(), self._jobs.on_node(node.name)
        quiet = None if activity is None else now - max(node.silent_since, activity.stepped_at or 0.0)
        return Signals(
            unlinked=now - node.silent_since,
            refusals=refusals,
            timeouts=timeouts,
            answers=answers,
            quiet=quiet,
            step_seconds=activity.step_seconds if activity else None,
            job_ended=bool(activity and activity.ended),
            silent_after=self._config.silent_after_seconds,
        )

    async def _probe(self, name: str) -> Literal["up", "refused", "timeout", "unknown"]:
        """Does slurmd's port answer? Refused: the machine is there and slurmd is not. Timeout: nothing is heard at all."""
        known = self.slurm_nodes.get(name)
        if known is None:
            return "unknown"
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(known.address, known.port), PROBE_SECONDS)
        except ConnectionRefusedError:
            return "refused"
        except (asyncio.TimeoutError, OSError):
            return "timeout"
        writer.close()
        return "up"

    def evidence(self, name: str) -> NodeEvidence:
        """What is known of a node now."""
        node = self.nodes.get(name, Node(name))
        agent: Literal["linked", "silent", "unknown"] = "linked" if node.connected else "unknown" if node.state == "unknown" else "silent"
        scheduler: Literal["up", "down", "unknown"] = "unknown"
        if not node.connected and node.slurmd in ("refused", "timeout"):
            scheduler = "down"
        elif name in self.slurm_nodes:
            scheduler = "up" if node.connected or node.slurmd == "up" else "unknown"
        detail = "" if node.connected else f"no beat for {time.monotonic() - node.last_beat:.1f} s; slurmd's port: {node.slurmd}"
        return NodeEvidence(node=name, instance_id=node.instance_id, agent=agent, scheduler=scheduler, detail=detail)

    def _report_lost(self, node: Node) -> None:
        activity = self._jobs.on_node(node.name)
        evidence = self.evidence(node.name)
        if activity is not None:
            evidence = evidence.model_copy(update={"detail": f"{evidence.detail}; training stands still or ended"})
        node.task = None
        self._set(node, "lost", self._reporter.make(NodeLost, lost=evidence, **_of(activity)))
        log.warning("node %s is lost: %s", node.name, evidence.detail)

    def _report_silent(self, node: Node) -> None:
        activity, evidence = self._jobs.on_node(node.name), self.evidence(node.name)
        self._set(node, "silent", self._reporter.make(AgentSilent, silent=evidence, **_of(activity)))
        log.warning("the agent of %s is silent, the node lives: %s", node.name, evidence.detail)

    async def _welcome_back(self, node: Node) -> None:
        """A lost node's agent is linked again: once its slurmd answers, give it back to Slurm, then report it."""
        pause = 0.1
        while True:
            node.slurmd = await self._probe(node.name)
            if node.slurmd == "up" and await self._serves_again(node.name):
                node.task = None
                return self._set(node, "linked", self._reporter.make(NodeReturned, returned=node.name, instance_id=node.instance_id))
            await asyncio.sleep(pause)
            pause = min(5.0, pause * 1.5)

    async def _serves_again(self, name: str) -> bool:
        try:
            self.slurm_nodes = await self._slurm.nodes()
            known = self.slurm_nodes.get(name)
            if known is None or known.serves or known.under_repair:
                return known is not None and known.serves
            if known.base in ("down", "idle") and "drain" not in known.flags and known.reason.lower().startswith(OUR_REASONS):
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

    # -- the slow loop -----------------------------------------------------------------------------------------------
    async def watch(self) -> None:
        """Notice beats that stop on an open connection, and nodes that never came back after this agent's own restart."""
        for node in self.nodes.values():
            if not node.connected and node.state in ("linked", "silent") and node.task is None:
                node.last_beat = node.silent_since = time.monotonic()
                node.task = self._spawn(self._investigate(node))
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
                if node.connected and now - node.last_beat > self._config.silent_after_seconds:
                    log.warning("%s is connected, but has not beaten for %.1f s", node.name, now - node.last_beat)
                    self.drop_link(node.name)
                    self.unlinked(node.name, node.last_beat)

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
                await asyncio.wait_for(self.look.wait(), 0.3 if not ready else 3.0 if self._jobs.busy() else 10.0)
            except asyncio.TimeoutError:
                continue

    async def _undrain(self) -> None:
        """Slurm gives a node that it drained by its own mistake back to nobody; the older job on it was killed before the next was submitted."""
        for name, known in self.slurm_nodes.items():
            drained = known.base in ("idle", "down") and "drain" in known.flags and not known.under_repair
            if drained and known.reason.lower().startswith(DUPLICATE) and self.serving(name):
                log.warning("%s: Slurm drained it (%s): it is given back", name, known.reason)
                await self._slurm.set_node(name, "resume")

    def _follow_members(self) -> None:
        """Report a changed list of nodes, once two looks agree: HyperPod rewrites Slurm's files while Slurm reads them."""
        names = sorted(self.slurm_nodes)
        steady, self._members_seen = names == self._members_seen, names
        stored = self._reporter.store.flag(MEMBERS)
        before: list[str] | None = None if stored is None else json.loads(stored)
        if not names or not steady or before == names:
            return
        removed = sorted(set(before or []) - set(names))
        gone = [name for name in removed if self._forget(name)]

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO flags VALUES(?, ?)", (MEMBERS, json.dumps(names)))
            connection.executemany("DELETE FROM nodes WHERE node = ?", [(name,) for name in gone])

        self._reporter.report(*([] if before is None else [self._members_event(names, before, removed)]), change=change)
        self.on_members()

    def _members_event(self, names: list[str], before: list[str], removed: list[str]) -> NodesChanged:
        partitions = Counter(partition for node in self.slurm_nodes.values() for partition in node.partitions)
        added = sorted(set(names) - set(before))
        log.warning("Slurm's nodes changed: removed %s, added %s", ", ".join(removed) or "none", ", ".join(added) or "none")
        return self._reporter.make(NodesChanged, nodes=names, added=added, removed=removed, partitions=dict(partitions))

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
        names = sorted(name for name, node in self.nodes.items() if node.connected and name in self.slurm_nodes)
        serving = [name for name in names if self.slurm_nodes[name].serves]
        if len(serving) < max(1, self._config.expected_workers):
            return False

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO flags VALUES('ready', '1')")

        self._reporter.report(self._reporter.make(ClusterReady, nodes=serving), change=change)
        log.info("the cluster is ready: %s", ", ".join(serving))
        return True

    def samples(self, own: dict[str, Any]) -> list[NodeSample]:
        """The newest sample of every node, this controller's own first."""
        found = [NodeSample.model_validate(own)]
        for name in sorted(set(self.nodes) | set(self.slurm_nodes)):
            node = self.nodes.get(name, Node(name))
            base = {"node": name, "instanceId": node.instance_id, "role": "worker", "at": own["at"]} | (node.sample or {})
            evidence = self.evidence(name)
            base["agent"] = evidence.agent
            base["scheduler"] = self.slurm_nodes[name].state if name in self.slurm_nodes else "unknown"
            if evidence.scheduler == "down":
                base["scheduler"] = "down"
            found.append(NodeSample.model_validate(base))
        return found

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _of(activity: Activity | None) -> dict[str, Any]:
    return {"run_id": activity.run_id, "attempt": activity.attempt} if activity else {}
