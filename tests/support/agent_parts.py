"""The controller's parts put together for a test, where Slurm, links and S3 are the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.agent import RUN, config

from trainyard_agent.checkpoints.restoring import Restores
from trainyard_agent.checkpoints.watching import Watching
from trainyard_agent.commands.job_control import JobControl
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.slurm_jobs import Job
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.ending import Ending
from trainyard_agent.jobs.follow import Follower
from trainyard_agent.jobs.forced_end import ForcedEnd
from trainyard_agent.jobs.hollow_jobs import HollowJobs
from trainyard_agent.jobs.hosts import Hosts
from trainyard_agent.jobs.powered_down import PoweredDown
from trainyard_agent.jobs.progress import ProgressReader
from trainyard_agent.jobs.queue_watch import QueueWatch
from trainyard_agent.nodes.members import Members
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_agent.nodes.registry import Registry
from trainyard_agent.nodes.returns import Returns
from trainyard_agent.nodes.silence import SilenceWatch
from trainyard_agent.nodes.verdicts import Verdicts
from trainyard_contracts.events import NodeEvidence
from trainyard_contracts.files import AgentConfig

NO_JOBS: Any = SimpleNamespace(busy=lambda: False, on_node=lambda _: None, leftovers=lambda _: [])


@dataclass(frozen=True)
class NodeParts:
    """What knows of nodes."""

    table: NodeTable
    silence: SilenceWatch
    returns: Returns
    members: Members
    registry: Registry


def node_parts(
    config: AgentConfig,
    reporter: Reporter,
    *,
    slurm: Any = None,
    link: Any = None,
    jobs: Any = NO_JOBS,
    on_restarted: Callable[[str, float], None] = lambda node, off_at: None,
) -> NodeParts:
    table = NodeTable(reporter, come_and_go=config.nodes_come_and_go)
    silence = SilenceWatch(config, reporter, table, link, jobs)
    returns = Returns(slurm, reporter, table, link, jobs)
    members = Members(config, slurm, reporter, table, jobs, on_change=lambda: None)
    registry = Registry(
        reporter,
        table,
        silence,
        returns,
        Verdicts(reporter, jobs),
        on_linked=lambda node, first: None,
        on_restarted=on_restarted,
    )
    return NodeParts(table, silence, returns, members, registry)


@dataclass(frozen=True)
class JobParts:
    """What knows of jobs."""

    attempts: Attempts
    progress: ProgressReader
    forced_end: ForcedEnd
    ending: Ending
    follower: Follower
    hosts: Hosts
    control: JobControl


async def nobody(*_: Any) -> None:
    """For who is not asked in a test."""


def job_parts(
    config: AgentConfig,
    reporter: Reporter,
    *,
    slurm: Any = None,
    table: Any = None,
    link: Any = None,
    s3: Any = None,
    secrets: Any = None,
    confirm: Any = nobody,
    kill: Any = nobody,
    on_end: Any = nobody,
    alive: Any = nobody,
) -> JobParts:
    attempts = Attempts(config, reporter)
    shared: dict[str, Any] = {
        "attempts": attempts,
        "progress": ProgressReader(reporter, attempts),
        "table": table,
    }
    forced_end = ForcedEnd(slurm, attempts, kill)
    ending = Ending(config, slurm, reporter, confirm=confirm, kill=kill, on_end=on_end, **shared)
    follower = Follower(
        slurm,
        reporter,
        confirm=confirm,
        queue=QueueWatch(slurm, reporter, attempts, table),
        powered_down=PoweredDown(slurm, table),
        hollow=HollowJobs(table, forced_end, alive),
        ending=ending,
        **shared,
    )
    hosts = Hosts(attempts, table)
    shared |= {"s3": s3, "checkpoints": None, "secrets": secrets}
    shared["watching"] = Watching(config, attempts, reporter)
    shared["restores"] = Restores(config, reporter, s3)
    control = JobControl(config, slurm, follower=follower, hosts=hosts, link=link, **shared)
    return JobParts(attempts, shared["progress"], forced_end, ending, follower, hosts, control)


class Nodes:
    """Every node is well but those named."""

    def __init__(self, *lost: str) -> None:
        self._lost = lost

    def suspicious(self, name: str) -> bool:
        return False

    def lost(self, name: str) -> bool:
        return name in self._lost

    def set_up(self, name: str) -> bool:
        return True

    def evidence(self, name: str) -> NodeEvidence:
        lost = self.lost(name)
        return NodeEvidence(
            node=name, agent="silent" if lost else "linked", scheduler="down" if lost else "up"
        )


class Controller:
    """The job parts of the controller's agent, on one store file that outlives them."""

    def __init__(self, directory: Path, slurm: Any = None, *lost: str) -> None:
        self.config = config(directory)
        self.store = Store(directory / "outbox.sqlite")
        self.reporter = Reporter(self.config, self.store)
        self.killed: list[tuple[int, list[str]]] = []
        self.closed: list[int] = []
        self.asked: list[Any] = []
        self.processes: dict[str, int] = {}
        parts = job_parts(
            self.config,
            self.reporter,
            slurm=slurm,
            table=Nodes(*lost),
            link=self,
            confirm=self.confirm,
            kill=self.kill,
            on_end=self.on_end,
            alive=self.alive,
        )
        self.attempts, self.follower, self.jobs = parts.attempts, parts.follower, parts.control
        self.ending, self.forced_end = parts.ending, parts.forced_end

    def add(self, number: int, state: str, **fields: Any) -> Attempt:
        attempt = Attempt(
            RUN, number, state, self.config_dir / str(number), job_id=str(100 + number), **fields
        )  # type: ignore[arg-type]
        self.attempts.save(attempt)
        return attempt

    @property
    def config_dir(self) -> Path:
        return Path(self.config.state_dir)

    async def on_end(self, attempt: Attempt) -> None:
        self.closed.append(attempt.number)

    async def confirm(self, names: Any) -> None:
        self.asked.append(names)

    async def alive(self, nodes: Any, run_id: str, number: int) -> int | None:
        """As many processes as a test says; of all nodes, or None where one does not answer."""
        counts = [self.processes.get(node) for node in nodes]
        return None if None in counts else sum(counts)  # type: ignore[arg-type]

    async def kill(self, run_id: str, number: int, jobs: list[str]) -> dict[str, int]:
        assert run_id == RUN
        self.killed.append((number, jobs))
        return {}


NODES = ("ip-127-0-0-2", "ip-127-0-0-3")


class OneJob:
    """A job that runs until it is cancelled."""

    def __init__(self) -> None:
        self.state = "RUNNING"
        self.cancelled: list[str] = []

    async def job(self, job_id: str) -> Job:
        return Job(job_id, self.state, 0, 15 if self.state == "CANCELLED" else 0, NODES)

    async def cancel(self, job_id: str, *options: str) -> None:
        self.cancelled.append(job_id)
        self.state = "CANCELLED"


def write_launch(directory: Path, node: str, **end: Any) -> None:
    """What a node's launcher says of itself; with `ended`, that it has."""
    directory.mkdir(exist_ok=True)
    (directory / f"launch-{node}.json").write_text(
        json.dumps({"node": node, "attempt": 1, "pid": 1, "started": 1.0, **end})
    )


def play(story: Coroutine[Any, Any, None]) -> None:
    """Run a test's story; the bound ends a hang."""
    asyncio.run(asyncio.wait_for(story, 60))
