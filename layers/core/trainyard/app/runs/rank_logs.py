"""Logs of single ranks: which of them a run can have, and what of them is kept in S3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainyard.app.runs.whose_logs import Whose
from trainyard.domain.errors import LogNotKept
from trainyard_contracts import places
from trainyard_contracts.files import KeptRankLog, KeptRankLogs, LogMark
from trainyard_contracts.rank_logs import heading, joined

#: The marks beside a rank's log are by its node's clock, which may be behind the controller's.
_CLOCK_SECONDS = 5
#: The logs of a node's ranks share so much of an answer.
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True)
class Kept:
    """The ranks' logs that are kept with an attempt's log, whose key is `key`."""

    key: str
    get: Callable[[str], bytes | None]

    def text(self, whose: Whose, lines: int, contains: str, since_seconds: int) -> str | None:
        """The tail; None if nothing of them is kept yet. Raises LogNotKept."""
        document = self.get(places.rank_logs_key(self.key))
        if document is None:
            return None
        known = KeptRankLogs.model_validate_json(document)
        logs = [log for log in known.logs if whose.node == log.node or log.rank == whose.rank]
        if not logs and known.left_out:
            raise LogNotKept(
                f"The log of {whose.words()} was not kept: of an attempt with very many ranks "
                f"those of {len(known.logs)} are, and {known.left_out} are not. While the "
                "cluster's filesystem is there, they are in the attempt's directory."
            )
        begin = known.ended_at - since_seconds - _CLOCK_SECONDS if since_seconds else 0
        share = _MOST_BYTES // max(1, len(logs))
        parts = [(log, self._tail(log, begin, lines, contains)[-share:]) for log in logs]
        if whose.node and any(log.rank is not None for log in logs):
            return joined((heading(log.node, log.rank), text) for log, text in parts)
        return "\n".join(text for _, text in parts if text)

    def _tail(self, log: KeptRankLog, begin: int, lines: int, contains: str) -> str:
        body = self.get(places.rank_log_key(self.key, log.node, log.rank)) if log.kept else None
        if body is None:
            return ""
        missing = log.bytes - len(body)
        left = since(log.marks, begin, len(body)) if begin else len(body)
        text = body[max(0, len(body) - left) :].decode(errors="replace").splitlines()
        found = [line for line in text if contains in line]
        if missing > 0 and left >= len(body) and len(found) <= lines:
            found = [f"(the {missing} bytes before this were not kept)", *found]
            lines += 1
        return "\n".join(found[-lines:])


def since(marks: Sequence[LogMark], begin: int, whole: int) -> int:
    """How many bytes of a log's end were printed after that time; all of it if no mark says."""
    return next((mark.left for mark in reversed(marks) if mark.at <= begin), whole)
