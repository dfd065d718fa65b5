"""Finds processes of a local cloud that still run, by the environment that each of them carries."""

from __future__ import annotations

from pathlib import Path

from trainyard_local.nodes import processes as node_processes


def processes_of(state_dir: Path, also: str = "") -> dict[int, str]:
    """pid -> command line of every other process of this state directory's cloud.

    With `also`, of those that have this variable.
    """
    of_cloud = node_processes.of_cloud(state_dir.resolve())
    found = node_processes.matching(
        lambda environment: of_cloud(environment) and (not also or also in environment)
    )
    return {process.pid: process.command for process in found}
