"""Keeps an ended attempt's log in S3, where it outlives the cluster, and its times beside it."""

from __future__ import annotations

import asyncio
import logging

from trainyard_agent.host.job_files import may_pass
from trainyard_agent.host.s3 import S3, Location, parse_uri
from trainyard_agent.host.signed_http import Refused, Unreachable
from trainyard_agent.jobs import log_times
from trainyard_agent.jobs.attempts import Attempt
from trainyard_agent.jobs.traces import log_tail
from trainyard_contracts import places
from trainyard_contracts.files import AgentConfig

log = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024 * 1024
#: After each try.
PAUSES_SECONDS = (0.5, 2.0, 10.0, 60.0)


class RunLogs:
    """Tries a few times, then gives up."""

    def __init__(self, config: AgentConfig, s3: S3) -> None:
        self._config, self._s3 = config, s3

    async def upload(self, attempt: Attempt) -> None:
        path, at = attempt.directory / places.JOB_LOG, self._location(attempt)
        for pause in PAUSES_SECONDS:
            try:
                body = await asyncio.to_thread(log_tail, path, MOST_BYTES)
                await asyncio.to_thread(self._s3.put_bytes, at, body.encode())
                await asyncio.to_thread(self._put_times, attempt, at)
                return
            except (Unreachable, OSError) as error:
                if isinstance(error, OSError) and not may_pass(error):
                    return  # the job left no log, or something else in its place
                log.warning("the log of %s cannot be uploaded yet: %s", attempt, error)
                await asyncio.sleep(pause)
            except Refused as error:
                log.error("the log of %s is refused: %s", attempt, error)
                return

    def _put_times(self, attempt: Attempt, at: Location) -> None:
        size = (attempt.directory / places.JOB_LOG).lstat().st_size
        times = log_times.kept(log_times.read(attempt.directory), size)
        beside = Location(at.bucket, places.log_times_key(at.key))
        self._s3.put_bytes(beside, times.model_dump_json(by_alias=True).encode())

    def _location(self, attempt: Attempt) -> Location:
        run = places.run_prefix(self._config.runs_prefix, attempt.run_id)
        key = places.log_key(run, attempt.number)
        return parse_uri(f"s3://{self._config.data_bucket}/{key}")
