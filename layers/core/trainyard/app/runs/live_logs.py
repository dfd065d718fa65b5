"""Logs that a node or CloudWatch has."""

from __future__ import annotations

from typing import Literal

from trainyard.app.runs.log_tails import Asked, LogTail
from trainyard.domain.errors import AgentTooOld, RetryableError
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts import commands


def live_tail(
    ports: Ports, cluster: Cluster | None, run: Run, attempt: int, asked: Asked
) -> LogTail:
    """Ask the controller; an unreachable node means no log now, not an error of the request.

    Where nodes come with jobs, AWS keeps what they printed, whatever became of the cluster.
    """
    nothing = LogTail("job", attempt, "none", "")
    kept = cluster is not None and cluster.spec.nodes_come_with_jobs
    if cluster is None or (cluster.status != "Ready" and not kept):
        return nothing
    try:
        found = asked.contains.encode().hex()
        command = commands.Logs(
            run.id,
            attempt,
            asked.lines,
            found,
            asked.since_seconds,
            asked.whose.rank,
            asked.whose.node,
        )
        result = ports.backend(cluster).run(cluster, command.argv(), timeout_seconds=20)
    except RetryableError:
        return nothing
    _refuse_old_agents(cluster.name, command, result.stdout)
    answer = commands.answer_of(result.stdout) if result.exit_code == 0 else None
    tail = commands.Tail.of(answer or {})
    if tail.lacks and any(one.number == attempt and one.ended_at for one in run.attempts):
        raise AgentTooOld(
            f"Attempt {attempt} has no logs of single ranks: its nodes have a version of Trainyard "
            "that writes none, or its program was never started; leave rank and node out."
        )
    source: Literal["cloudwatch", "node"] = "cloudwatch" if kept else "node"
    return LogTail("job", attempt, source, tail.text) if tail.text else nothing


def _refuse_old_agents(cluster: str, command: commands.Logs, said: str) -> None:
    unknown = [name for name in command.options() if f"--{name} {commands.UNKNOWN_OPTION}" in said]
    if not unknown:
        return
    if unknown[0] in ("rank", "node"):
        raise AgentTooOld(
            f"Cluster '{cluster}' is from a version of Trainyard in which ranks have no logs of "
            "their own; leave rank and node out."
        )
    raise AgentTooOld(
        f"The agent of cluster '{cluster}' is from a version of Trainyard that cannot search a log "
        "that still grows, by text or by time; its end can be read, and all of it once the attempt "
        "has ended."
    )
