"""Keeps the curves of attempts in S3, where they outlive the cluster: now and then while an attempt
trains, at its end, and before an export.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.locations import Location, parse_uri
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.collected import joined, losses_of
from trainyard_agent.jobs.reported import Reported, losses_kept
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.curves import KeptCurves, Point

log = logging.getLogger(__name__)

#: Between two looks at which attempts are due.
LOOK_SECONDS = 5.0
#: The curves of a young attempt are kept so often.
EVERY_SECONDS = 60.0
#: Those of an older one after this part of its age: each time is a new version of the object, and
#: those stay for a while.
PART_OF_AGE = 0.05
#: But never more rarely.
MOST_SECONDS = 1800.0
#: After each try, at an attempt's end.
PAUSES_SECONDS = (0.5, 2.0, 10.0, 60.0)


@dataclass
class _Keeping:
    """One attempt. `before`: losses that were kept before this agent was restarted; None: they
    were not looked for yet.
    """

    reported: Reported
    began: float
    due: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    before: list[Point] | None = None
    kept: KeptCurves | None = None


class RunCurves:
    """A look that fails is made again; training and exports never wait long for it."""

    def __init__(self, config: AgentConfig, s3: S3, attempts: Attempts) -> None:
        self._config, self._s3, self._attempts = config, s3, attempts
        self._keeping: dict[tuple[str, int], _Keeping] = {}
        self._done: set[tuple[str, int]] = set()

    async def watch(self) -> None:
        while True:
            for attempt in self._attempts.active():
                await self._look(attempt)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, attempt: Attempt) -> None:
        keeping, now = self._of(attempt), time.monotonic()
        if now < keeping.due:
            return
        pause = max(EVERY_SECONDS, PART_OF_AGE * (now - keeping.began))
        keeping.due = now + min(pause, MOST_SECONDS)
        try:
            await self._keep(attempt, keeping, last=False)
        except (Unreachable, Refused, OSError) as error:
            log.warning("the curves of %s cannot be kept yet: %s", attempt, error)

    async def finish(self, attempt: Attempt) -> None:
        """Keep all that the attempt reported; it has ended. Tries a few times, then gives up."""
        key = (attempt.run_id, attempt.number)
        if await self._patiently(attempt, last=True):
            self._done.add(key)
            self._keeping.pop(key, None)
            attempt.losses.clear()

    async def settled(self, run_id: str) -> None:
        """Keep what all attempts of the run reported by now; an export waits for it."""
        for (run, number), attempt in list(self._attempts.known.items()):
            if run != run_id or (run, number) in self._done:
                continue
            if attempt.state == "ended":
                await self.finish(attempt)
            elif attempt.state == "running":
                await self._patiently(attempt, last=False)

    async def _patiently(self, attempt: Attempt, *, last: bool) -> bool:
        """Whether it was kept, or nothing was there."""
        keeping = self._of(attempt)
        for pause in PAUSES_SECONDS:
            try:
                await self._keep(attempt, keeping, last=last)
                return True
            except (Unreachable, OSError) as error:
                log.warning("the curves of %s cannot be kept yet: %s", attempt, error)
                await asyncio.sleep(pause)
            except Refused as error:
                log.error("the curves of %s are refused: %s", attempt, error)
                return False
        return False

    def _of(self, attempt: Attempt) -> _Keeping:
        key = (attempt.run_id, attempt.number)
        if key not in self._keeping:
            now = time.monotonic()
            self._keeping[key] = _Keeping(Reported(attempt.directory), now, now + EVERY_SECONDS)
        return self._keeping[key]

    async def _keep(self, attempt: Attempt, keeping: _Keeping, *, last: bool) -> None:
        """Raises Unreachable, Refused, OSError."""
        async with keeping.lock:
            said = attempt.losses.items()
            await asyncio.to_thread(self._read_and_keep, attempt, keeping, said, last)

    def _read_and_keep(
        self, attempt: Attempt, keeping: _Keeping, said: list[Point], last: bool
    ) -> None:
        """In a thread: the shared filesystem may stand still."""
        reported = keeping.reported
        if keeping.before is None:
            keeping.before = losses_kept(attempt.directory)
        reported.look(last=last)
        parts = [reported.metrics, reported.steps, losses_of(said, keeping.before)]
        curves, left_out = joined(parts)
        if not curves or (keeping.kept is not None and keeping.kept.curves == curves):
            return
        document = KeptCurves(
            run_id=attempt.run_id,
            attempt=attempt.number,
            written_at=datetime.now(timezone.utc),
            curves=curves,
            names_left_out=left_out,
        )
        body = document.model_dump_json(by_alias=True).encode()
        try:
            replace_file(attempt.directory / places.KEPT_CURVES, body, durable=False)
        except OSError as error:  # a full disk: S3 has it
            log.warning("the curves of %s are not kept beside its log: %s", attempt, error)
        self._s3.put_bytes(self._location(attempt), body)
        keeping.kept = document

    def _location(self, attempt: Attempt) -> Location:
        run = places.run_prefix(self._config.runs_prefix, attempt.run_id)
        key = places.curves_key(places.log_key(run, attempt.number))
        return parse_uri(f"s3://{self._config.data_bucket}/{key}")
