"""Which processes of a local cloud are still there: found by the environment every one of them carries."""

from __future__ import annotations

from pathlib import Path

from trainyard_local.nodes import processes as node_processes


def processes_of(state_dir: Path, also: str = "") -> dict[int, str]:
    """pid -> command line of every process of this state directory's cloud (that has the variable `also`), but for this one."""
    of_cloud = node_processes.of_cloud(state_dir.resolve())
    found = node_processes.matching(
        lambda environment: of_cloud(environment) and (not also or also in environment)
    )
    return {process.pid: process.command for process in found}
