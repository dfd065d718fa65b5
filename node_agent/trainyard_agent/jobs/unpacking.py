"""Brings a run's upload to the shared filesystem and makes it the working directory.

It is there whole or not at all: it is unpacked beside its place, every hash is compared, and one
rename makes it the working directory. After a kill at any line the next submit goes on with what
is there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from trainyard_agent.host.background import in_own_thread
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs import work
from trainyard_agent.jobs.unpack_state import Bringing, State
from trainyard_agent.jobs.unpacker import Unpacker
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)
#: A submit waits so long for its upload, and is then answered that it is still being fetched.
WAIT_SECONDS = 30.0


class Uploads:
    """One bringing at a time for each run."""

    def __init__(self, s3: S3) -> None:
        self._s3 = s3
        self._running: dict[str, Bringing] = {}

    def bring(self, root: Path, bundle: JobBundle, bucket: str) -> Bringing | None:
        """Start or join it; None where nothing is to be brought: the directory is there."""
        if bundle.code is None or os.path.lexists(work.work_dir(root)):
            return None
        if bundle.run_id not in self._running:
            state = State()
            at = Location(bucket, bundle.code.prefix)
            task = asyncio.create_task(self._bring(Unpacker(self._s3, at, root, bundle, state)))
            self._running[bundle.run_id] = Bringing(task, state)
            task.add_done_callback(lambda ended: self._ended(bundle.run_id, ended))
        return self._running[bundle.run_id]

    @staticmethod
    async def _bring(unpacker: Unpacker) -> None:
        try:
            await in_own_thread(unpacker.run)
        finally:
            unpacker.state.stop.set()

    def _ended(self, run_id: str, task: asyncio.Task[None]) -> None:
        del self._running[run_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            # The next submit meets it again.
            log.warning("%s: its upload could not be brought: %s", run_id, error)

    @staticmethod
    async def wait(bringing: Bringing, deadline: float) -> None:
        """Until it is there. Raises what it failed with, or CommandRefused at the deadline."""
        await asyncio.wait({bringing.task}, timeout=max(0.0, deadline - time.monotonic()))
        if not bringing.task.done():
            raise CommandRefused(
                "fetching",
                f"job.workdir is still being fetched: {bringing.state.words()}; "
                "the same command again is safe",
            )
        bringing.task.result()
