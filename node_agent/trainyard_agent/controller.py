"""Builds the parts that only the controller's agent has.

Each part gets all that it needs when it is made, so a part is made after those that it needs: the
table of nodes and the links first, then the parts that know jobs, then those that listen to nodes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.export import Exports
from trainyard_agent.checkpoints.restoring import Restores
from trainyard_agent.checkpoints.syncing import Syncing
from trainyard_agent.checkpoints.watching import Watching
from trainyard_agent.commands.job_control import JobControl
from trainyard_agent.commands.server import CommandServer, Handlers
from trainyard_agent.events.damage import set_damaged_aside
from trainyard_agent.events.heartbeats import portions
from trainyard_agent.events.outbox import Sender
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.s3 import S3
from trainyard_agent.host.sampling import Sampler
from trainyard_agent.host.settings_watch import SettingsWatch
from trainyard_agent.host.slurm import Slurm
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.ending import Ending
from trainyard_agent.jobs.follow import Follower
from trainyard_agent.jobs.forced_end import ForcedEnd
from trainyard_agent.jobs.hollow_jobs import HollowJobs
from trainyard_agent.jobs.hosts import Hosts
from trainyard_agent.jobs.image_room import ImageRoom
from trainyard_agent.jobs.interruptions import Interruptions
from trainyard_agent.jobs.log_times import LogWatch
from trainyard_agent.jobs.other_jobs import OtherJobsWatch
from trainyard_agent.jobs.powered_down import PoweredDown
from trainyard_agent.jobs.progress import ProgressReader
from trainyard_agent.jobs.queue_watch import QueueWatch
from trainyard_agent.jobs.run_curves import RunCurves
from trainyard_agent.jobs.run_logs import RunLogs
from trainyard_agent.jobs.textfile import Textfile
from trainyard_agent.nodes.health import Health
from trainyard_agent.nodes.link_server import LinkServer
from trainyard_agent.nodes.links import Links
from trainyard_agent.nodes.members import Members
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_agent.nodes.registry import Registry
from trainyard_agent.nodes.returns import Returns
from trainyard_agent.nodes.silence import SilenceWatch
from trainyard_agent.nodes.verdicts import Verdicts
from trainyard_contracts import commands
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.heartbeats import ClusterHeartbeat

log = logging.getLogger(__name__)

MIN_HEARTBEAT_SECONDS = 0.5


class Controller:
    """The controller's parts, built once.

    All of them run in one event loop, except for the outbox's sender and for blocking reads.
    """

    def __init__(self, config: AgentConfig, key: bytes, sampler: Sampler, health: Health) -> None:
        self._config, self._sampler, self._health = config, sampler, health
        path = Path(config.state_dir) / "outbox.sqlite"
        set_damaged_aside(path)
        self._sender = Sender(path, config.event_bus, config.region, key)
        self._store = Store(path, on_commit=self._sender.wake)
        self._reporter = Reporter(config, self._store)
        self._slurm, self._s3 = Slurm(config), S3(config.region)
        self._table = NodeTable(self._reporter, come_and_go=config.nodes_come_and_go)
        self._links = Links()
        self._attempts = Attempts(config, self._reporter)
        self._silence = SilenceWatch(
            config, self._reporter, self._table, self._links, self._attempts
        )
        self._verdicts = Verdicts(self._reporter, self._attempts)
        self._checkpoints = Checkpoints(config, self._attempts, self._reporter)
        self._watching = Watching(config, self._attempts, self._reporter)
        self._syncing = Syncing(config, self._attempts, self._reporter, self._s3)
        self._run_logs = RunLogs(config, self._s3)
        self._run_curves = RunCurves(config, self._s3, self._attempts)
        self._progress = ProgressReader(self._reporter, self._attempts)
        self._forced_end = ForcedEnd(self._slurm, self._attempts, self._links.kill)
        self._hosts = Hosts(self._attempts, self._table)
        self._interruptions = Interruptions(
            self._slurm, self._reporter, self._attempts, self._table
        )
        self._interruptions.ask_for_checkpoints(self._checkpoints.known, self._checkpoints.look_at)
        self._follower = self._make_follower()
        self._jobs = self._make_jobs()
        self._members = Members(
            config,
            self._slurm,
            self._reporter,
            self._table,
            self._attempts,
            on_change=self._hosts.members_changed,
        )
        self._link = LinkServer(config, key, self._links, self._make_registry())
        self._exports = self._make_exports()
        self._settings = SettingsWatch(config, self._slurm, lambda: self._table.slurm_nodes)
        self._image_room = ImageRoom(config, self._attempts)
        self._textfile = Textfile(config, self._attempts)
        self._log_watch = LogWatch(self._attempts)
        self._others = OtherJobsWatch(self._slurm, min(60.0, config.heartbeat_seconds))
        self._commands = CommandServer(
            config.state_dir, self._handlers(), self._attempts.job_ended_somewhere
        )

    def _make_exports(self) -> Exports:
        parts = self._attempts, self._checkpoints, self._reporter, self._s3
        return Exports(self._config, *parts, settled=self._settled, syncing=self._syncing)

    async def _settled(self, run_id: str) -> None:
        await asyncio.gather(self._watching.settled(run_id), self._run_curves.settled(run_id))

    def _make_follower(self) -> Follower:
        ending = Ending(
            self._config,
            self._slurm,
            self._reporter,
            attempts=self._attempts,
            progress=self._progress,
            table=self._table,
            confirm=self._silence.confirm,
            kill=self._links.kill,
            on_end=self._attempt_ended,
        )
        return Follower(
            self._slurm,
            self._reporter,
            attempts=self._attempts,
            progress=self._progress,
            table=self._table,
            confirm=self._silence.confirm,
            queue=QueueWatch(self._slurm, self._reporter, self._attempts, self._table),
            powered_down=PoweredDown(self._slurm, self._table),
            hollow=HollowJobs(self._table, self._forced_end, self._links.alive),
            ending=ending,
        )

    def _make_jobs(self) -> JobControl:
        return JobControl(
            self._config,
            self._slurm,
            attempts=self._attempts,
            follower=self._follower,
            progress=self._progress,
            table=self._table,
            hosts=self._hosts,
            link=self._links,
            s3=self._s3,
            checkpoints=self._checkpoints,
            watching=self._watching,
            restores=Restores(self._config, self._reporter, self._s3),
            settled=self._interruptions.settled,
        )

    def _make_registry(self) -> Registry:
        returns = Returns(self._slurm, self._reporter, self._table, self._links, self._attempts)
        return Registry(
            self._reporter,
            self._table,
            self._silence,
            returns,
            self._verdicts,
            on_linked=self._jobs.node_linked,
            on_restarted=self._forced_end.restarted,
            on_notice=self._interruptions.noticed,
        )

    def _handlers(self) -> Handlers:
        jobs = self._jobs
        return {
            commands.Submit: lambda given: jobs.submit(
                given.run, given.attempt, given.bundle, given.sha256, given.code
            ),
            commands.Checkout: lambda given: jobs.checkout(
                given.run, given.attempt, given.bundle, given.sha256
            ),
            commands.Exclude: lambda given: jobs.exclude(given.run, given.attempt, given.nodes),
            commands.Cancel: lambda given: jobs.cancel(given.run),
            commands.Status: self._status,
            commands.Export: self._export,
            commands.Logs: self._logs,
            commands.Nodes: self._nodes,
        }

    async def start(self) -> None:
        """Serve, and take up what an earlier daemon left."""
        self._sender.start()
        await self._link.start()
        self._follower.resume()
        self._jobs.resume()
        self._exports.resume()
        await self._commands.start()

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self._silence.watch(),
            self._members.refresh(),
            self._checkpoints.watch(),
            self._watching.watch(),
            self._syncing.watch(),
            self._others.watch(),
            self._settings.watch(),
            self._image_room.watch(),
            self._textfile.watch(),
            self._log_watch.watch(),
            self._run_curves.watch(),
            self._heartbeats(),
            self._own_checks(),
        ]

    def close(self) -> None:
        self._textfile.close()
        self._commands.close()
        self._link.close()
        self._checkpoints.close()
        self._watching.close()
        self._syncing.close()
        self._sender.stop()
        self._sender.join(5)
        self._store.close()

    async def _attempt_ended(self, attempt: Attempt) -> None:
        """Look once more for its last checkpoints, and keep its log and its curves in S3."""
        await asyncio.gather(
            self._run_logs.upload(attempt),
            self._run_curves.finish(attempt),
            self._last_checkpoints(attempt),
        )

    async def _last_checkpoints(self, attempt: Attempt) -> None:
        await self._watching.finish(attempt, well=attempt.ended_well)
        await self._checkpoints.look_at(attempt)

    # -- commands ---------------------------------------------------------------------------------
    async def _status(self, given: commands.Status) -> dict[str, Any]:
        return self._jobs.status(given.run)

    async def _export(self, given: commands.Export) -> commands.Exporting:
        return self._exports.start(given.run, given.export_id, given.destination, given.checkpoints)

    async def _logs(self, given: commands.Logs) -> commands.Tail:
        return await asyncio.to_thread(self._jobs.logs, given)

    async def _nodes(self, _: commands.Nodes) -> dict[str, Any]:
        samples = self._table.samples(self._sampler.take())
        return {"nodes": [sample.model_dump(mode="json", by_alias=True) for sample in samples]}

    # -- loops ------------------------------------------------------------------------------------
    async def _heartbeats(self) -> None:
        """Every heartbeat_seconds, and at once when a node or an attempt changed."""
        while True:
            began = time.monotonic()
            if self._store.flush_held():
                self._store.refill_reserve()
            parts = self._heartbeat()
            await asyncio.sleep(min(MIN_HEARTBEAT_SECONDS * parts, self._config.heartbeat_seconds))
            await self._changed_or(
                max(0.0, self._config.heartbeat_seconds - (time.monotonic() - began))
            )

    async def _changed_or(self, seconds: float) -> None:
        waits = [
            asyncio.create_task(event.wait())
            for event in (self._table.changed, self._attempts.changed)
        ]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self._table.changed.clear()
        self._attempts.changed.clear()

    def _heartbeat(self) -> int:
        """Send a heartbeat; returns the number of its events."""
        samples, runs = self._table.samples(self._sampler.take()), self._attempts.samples()
        dropped = self._store.dropped_samples
        parts = portions(samples, runs)
        others = {"other_jobs": self._others.latest}
        for number, nodes in enumerate(parts, 1):
            fields = {
                "nodes": nodes,
                "runs": runs,
                "dropped_samples": dropped,
                "part": number,
                "parts": len(parts),
            } | others
            self._reporter.sample(self._reporter.make(ClusterHeartbeat, **fields))
        return len(parts)

    async def _own_checks(self) -> None:
        """The controller has no link to itself, over which its verdicts could come."""
        while True:
            await asyncio.sleep(2.0)
            self._verdicts.take(self._config.node_name, self._health.verdicts())
