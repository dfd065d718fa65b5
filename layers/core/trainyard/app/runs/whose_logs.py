"""Of which ranks a log is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.records import Run
from trainyard_contracts.commands import ALL_RANKS

#: The recipe whose program runs once on each node; what it starts there is its own matter.
_WITHOUT_RANKS = "command"
#: So many nodes are named in an error.
_NAMED = 20


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
