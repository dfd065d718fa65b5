"""Logs of single ranks: which of them a run can have, and what of them is kept in S3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainyard.domain.errors import FieldError, InvalidRequest, LogNotKept
from trainyard.domain.records import Run
from trainyard_contracts import places
from trainyard_contracts.commands import ALL_RANKS
from trainyard_contracts.files import KeptRankLog, KeptRankLogs, LogMark
from trainyard_contracts.rank_logs import heading, joined

#: The recipe whose program runs once on each node; what it starts there is its own matter.
_WITHOUT_RANKS = "command"
#: So many nodes are named in an error.
_NAMED = 20
#: The marks beside a rank's log are by its node's clock, which may be behind the controller's.
_CLOCK_SECONDS = 5
#: The logs of a node's ranks share so much of an answer.
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True)
class Whose:
    """Of which ranks logs are shown: of one, of a node's, or (`ALL_RANKS`, '') the log of all."""

    rank: int = ALL_RANKS
    node: str = ""

    @property
    def single(self) -> bool:
        return self.rank != ALL_RANKS or bool(self.node)

    def words(self) -> str:
        """What it is the log of, after a preposition."""
        return f"node '{self.node}'" if self.node else f"rank {self.rank}"


def check(run: Run, attempt: int | None, whose: Whose, kind: str) -> None:
    """Refuse ranks and nodes that the attempt cannot have. Raises InvalidRequest."""
    if not whose.single:
        return
    name = "node" if whose.node else "rank"
    if kind == "lifecycle":
        _refuse(name, "is for the job's log; leave it out, or ask for kind=job")
    if whose.node and whose.rank != ALL_RANKS:
        _refuse("node", "goes not with rank, which is on one node; leave one of them out")
    nodes = next((found.nodes for found in run.attempts if found.number == attempt), [])
    if whose.node:
        _check_node(whose.node, nodes, attempt)
    else:
        _check_rank(run, whose.rank, nodes)


def _check_node(node: str, nodes: Sequence[str], attempt: int | None) -> None:
    if nodes and node not in nodes:
        was = f"attempt {attempt} was on {_named(nodes)}"
        _refuse("node", f"'{node[:100]}' is no node of this attempt; {was}")


def _check_rank(run: Run, rank: int, nodes: Sequence[str]) -> None:
    job = run.spec.job
    if job.recipe == _WITHOUT_RANKS:
        instead = f"its nodes are {_named(nodes)}" if nodes else "its nodes are not known yet"
        _refuse(
            "rank",
            f"recipe '{job.recipe}' runs the program once on each node, and ranks that it may "
            f"start there are not known; ask for a node: {instead}",
        )
    world = job.nodes * job.processes_per_node
    if rank >= world:
        _refuse(
            "rank",
            f"there is no rank {rank}; the job has {job.nodes} x {job.processes_per_node} "
            f"processes (nodes x processesPerNode), ranks 0 to {world - 1}",
        )


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return f"{', '.join(nodes[:_NAMED])}{more}"


def _refuse(field: str, words: str) -> None:
    raise InvalidRequest("One parameter does not fit.", errors=[FieldError(field, words)])


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
