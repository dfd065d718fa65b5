"""Saves a job whose spot node EC2 takes back, and has it go on elsewhere before the node is gone.

First a checkpoint is asked for while training goes on: whatever happens then, it is there. When it
is committed, the node is told as lost, and the job makes its last checkpoint and stops. The next
attempt waits for that: no step is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.background import Background
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_agent.nodes.activity import named
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_agent.nodes.returns import OURS
from trainyard_contracts.node_events import NodeLost

log = logging.getLogger(__name__)

#: For the first checkpoint a job gets so much of the time that is left.
SHARE = 0.4
#: For the last one, and for its end, it gets as long.
STOP_SECONDS = 30.0
LOOK_SECONDS = 0.25
#: Programs of ours.
OURS_MODULE = "trainyard_trainers."
REASON = f"{OURS}: EC2 takes the spot instance back"
Known = Callable[[str], list[dict[str, Any]]]
Look = Callable[[Attempt], Awaitable[None]]


class Interruptions:
    """One story for each instance that EC2 takes back."""

    def __init__(
        self, slurm: Slurm, reporter: Reporter, attempts: Attempts, table: NodeTable
    ) -> None:
        self._slurm, self._reporter = slurm, reporter
        self._attempts, self._table = attempts, table
        self._known: Known = lambda run_id: []
        self._look: Look = _nobody
        self._begun: set[tuple[str, str]] = set()
        self._going: dict[str, asyncio.Task[None]] = {}
        self._background = Background()

    def ask_for_checkpoints(self, known: Known, look: Look) -> None:
        """Whom to ask which checkpoints a run has, and to look for new ones."""
        self._known, self._look = known, look

    def noticed(self, name: str, instance_id: str, at: str) -> None:
        """EC2 takes this node's instance back; the notice comes again with each beat."""
        if (name, instance_id) in self._begun:
            return
        self._begun.add((name, instance_id))
        ends_at, attempt = _time(at), self._on(name)
        log.warning("EC2 takes %s back at %s; its job: %s", name, at, attempt or "none")
        task = self._background.spawn(self._leave(name, ends_at, attempt))
        if attempt is not None:
            self._going[attempt.run_id] = task

    async def settled(self, run_id: str) -> None:
        """Wait until the run's job that leaves a node has ended, or had its time."""
        if (task := self._going.get(run_id)) is not None:
            await asyncio.wait({task}, timeout=STOP_SECONDS)

    def _on(self, name: str) -> Attempt | None:
        return next((one for one in self._attempts.active() if name in one.nodes), None)

    async def _leave(self, name: str, ends_at: datetime, attempt: Attempt | None) -> None:
        if attempt is not None and not attempt.job_ended:
            await self._save(attempt, ends_at)
        await self._drain(name)
        node = self._table.nodes.get(name)
        if node is None:
            return
        evidence = self._table.evidence(name)
        activity = self._attempts.on_node(name) if attempt is not None else None
        event = self._reporter.make(
            NodeLost, about=evidence, taken_back_at=ends_at, **named(activity)
        )
        self._table.report(node, "lost", event)
        if attempt is not None and not attempt.done.is_set():
            await self._signal(attempt, "TERM")
            await _within(attempt.done.wait(), STOP_SECONDS)

    async def _save(self, attempt: Attempt, ends_at: datetime) -> None:
        """Ask for a checkpoint, and wait until one is committed that has the steps until now."""
        step = attempt.progress.step if attempt.progress else None
        left = (ends_at - datetime.now(timezone.utc)).total_seconds()
        if step is None or not _answers(attempt) or not await self._signal(attempt, "USR2"):
            return
        await _within(self._committed(attempt, step), max(0.0, SHARE * left))

    async def _committed(self, attempt: Attempt, step: int) -> None:
        while not attempt.done.is_set():
            await self._look(attempt)
            found = self._known(attempt.run_id)
            if any(one["status"] == "whole" and (one["step"] or 0) >= step for one in found):
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _signal(self, attempt: Attempt, word: str) -> bool:
        try:
            await self._slurm.cancel(attempt.job_id, f"--signal={word}")
        except SlurmError as error:
            log.warning("job %s does not get its SIG%s: %s", attempt.job_id, word, error)
            return False
        return True

    async def _drain(self, name: str) -> None:
        """No job is to start there any more; those of others go on until the end."""
        try:
            await self._slurm.set_node(name, "drain", REASON)
        except SlurmError as error:
            log.warning("%s cannot be drained: %s", name, error)


def _answers(attempt: Attempt) -> bool:
    """Whether its program makes a checkpoint at SIGUSR2, which ends one that knows nothing of it.

    Such a program gets the signal to stop at once, with all of the time that is left.
    """
    bundle = bundle_of(attempt)
    words = bundle.program if bundle is not None else []
    return words[:1] == ["-m"] and words[1:2] != [] and words[1].startswith(OURS_MODULE)


async def _nobody(attempt: Attempt) -> None:
    """Until somebody else is named."""


async def _within(waiting: Awaitable[Any], seconds: float) -> None:
    try:
        await asyncio.wait_for(waiting, seconds)
    except asyncio.TimeoutError:
        log.warning("it did not come within %.0f s", seconds)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        found = datetime.now(timezone.utc)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
