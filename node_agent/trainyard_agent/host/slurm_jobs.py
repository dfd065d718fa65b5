"""A job of Slurm's, read from its answers."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard_agent.host.slurm_names import expand
from trainyard_agent.host.slurm_nodes import fields

_ENDED = frozenset({
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE",
    "OUT_OF_MEMORY", "PREEMPTED", "COMPLETING",
})  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What `scontrol show job` says."""

    job_id: str
    state: str
    exit_code: int
    signal: int
    nodes: tuple[str, ...]
    reason: str = ""
    name: str = ""
    excluded: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Its processes are gone or being ended; a COMPLETING job never runs again."""
        return self.state in _ENDED


def parse_job(text: str) -> Job | None:
    """None if there is no such job."""
    found = fields(text.strip().splitlines()[0]) if text.strip() else {}
    if "JobId" not in found:
        return None
    code, _, signal = found.get("ExitCode", "0:0").partition(":")
    reason = found.get("Reason", "")
    nodes, name = expand(found.get("NodeList", "")), found.get("JobName", "")
    excluded = expand(found.get("ExcNodeList", ""))
    return Job(
        found["JobId"],
        found.get("JobState", ""),
        int(code or 0),
        int(signal or 0),
        nodes,
        reason,
        name,
        excluded,
    )
