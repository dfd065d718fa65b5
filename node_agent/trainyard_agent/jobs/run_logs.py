"""Keeps an ended attempt's log in S3, where it outlives the cluster, with its times and the logs
of its ranks beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.job_files import may_pass
from trainyard_agent.host.locations import Location, parse_uri
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs import log_times, rank_logs
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.rank_logs import RankLog
from trainyard_agent.jobs.traces import log_tail, read_tail
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.kept_logs import KeptRankLog, KeptRankLogs

log = logging.getLogger(__name__)

MOST_BYTES = 16 * 1024 * 1024
#: The logs of so many ranks are kept, those of the lowest ones.
RANKS_KEPT = 1024
#: So much of a rank's log is kept, of its end.
RANK_BYTES = 1024**2
#: All of them share so much.
ALL_RANKS_BYTES = 64 * 1024**2
#: So many logs of ranks are sent at once.
AT_ONCE = 8
#: After each try.
PAUSES_SECONDS = (0.5, 2.0, 10.0, 60.0)


class RunLogs:
    """Tries a few times, then gives up."""

    def __init__(self, config: AgentConfig, s3: S3) -> None:
        self._config, self._s3 = config, s3

    async def upload(self, attempt: Attempt) -> None:
        at = self._location(attempt)
        await self._patiently(attempt, partial(self._put_log, attempt, at))
        await self._patiently(attempt, partial(self._put_ranks, attempt, at))

    async def _patiently(self, attempt: Attempt, work: Callable[[], None]) -> None:
        for pause in PAUSES_SECONDS:
            try:
                await asyncio.to_thread(work)
                return
            except (Unreachable, OSError) as error:
                if isinstance(error, OSError) and not may_pass(error):
                    return  # the job left no log, or something else in its place
                log.warning("the log of %s cannot be uploaded yet: %s", attempt, error)
                await asyncio.sleep(pause)
            except Refused as error:
                log.error("the log of %s is refused: %s", attempt, error)
                return

    def _put_log(self, attempt: Attempt, at: Location) -> None:
        body = log_tail(attempt.directory / places.JOB_LOG, MOST_BYTES)
        self._s3.put_bytes(at, body.encode())
        self._put_times(attempt, at)

    def _put_times(self, attempt: Attempt, at: Location) -> None:
        size = (attempt.directory / places.JOB_LOG).lstat().st_size
        times = log_times.kept(log_times.read(attempt.directory), size)
        beside = Location(at.bucket, places.log_times_key(at.key))
        self._s3.put_bytes(beside, times.model_dump_json(by_alias=True).encode())

    def _put_ranks(self, attempt: Attempt, at: Location) -> None:
        """The logs of the ranks; last, so that what it names is there, the list of them."""
        directory = attempt.directory
        if not rank_logs.is_there(directory):
            return
        logs = rank_logs.found(directory)
        some, ended = logs[:RANKS_KEPT], log_times.read(directory)
        share = min(RANK_BYTES, ALL_RANKS_BYTES // max(1, len(some)))
        times = {node: rank_logs.marks(directory, node) for node in {log.node for log in some}}

        def put(log: RankLog) -> KeptRankLog:
            body = read_tail(log.path, share, root=directory).encode()
            if body:
                key = places.rank_log_key(at.key, log.node, log.rank)
                self._s3.put_bytes(Location(at.bucket, key), body)
            marks = times[log.node].get(log.path.name, [])
            return KeptRankLog(
                node=log.node,
                rank=log.rank,
                bytes=log.size,
                kept=len(body),
                marks=log_times.kept(marks, log.size, len(some)).marks,
            )

        with ThreadPoolExecutor(AT_ONCE) as pool:
            kept = list(pool.map(put, some))
        document = KeptRankLogs(
            logs=kept, left_out=len(logs) - len(some), ended_at=ended[-1].at if ended else 0
        )
        index = Location(at.bucket, places.rank_logs_key(at.key))
        self._s3.put_bytes(index, document.model_dump_json(by_alias=True).encode())

    def _location(self, attempt: Attempt) -> Location:
        run = places.run_prefix(self._config.runs_prefix, attempt.run_id)
        key = places.log_key(run, attempt.number)
        return parse_uri(f"s3://{self._config.data_bucket}/{key}")
