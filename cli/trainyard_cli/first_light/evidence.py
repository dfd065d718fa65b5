"""What is kept of a first light that stopped: AWS's and our answers before the teardown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..doctor.account import NotAnswered
from ..problems import CliError
from .world import Json, World

#: Of each log the end, of each list the newest: one file that can be sent to somebody.
LINES, ENTRIES = 200, 300


def evidence(world: World) -> Json:
    """The evidence by name; instead of a part that cannot be read there is the reason."""
    parts: dict[str, Callable[[], Any]] = {
        "describeCluster": lambda: world.described,
        "listClusterNodes": lambda: world.backend_nodes,
        "clusterEvents": lambda: _cluster_events(world),
        "cluster": lambda: world.cluster,
        "nodes": lambda: world.nodes,
        "lifecycleLogs": lambda: _lifecycle_logs(world),
        "run": lambda: _run(world),
        "timeline": lambda: world.timeline()[-ENTRIES:],
        "jobLog": lambda: world.log()["text"].splitlines()[-LINES:],
    }
    return {name: _read(read) for name, read in parts.items()}


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (NotAnswered, CliError) as error:
        return f"could not be read: {error}"
    # An answer of an unexpected shape: the other parts are still worth having.
    except Exception as error:  # noqa: BLE001
        return f"could not be read: {type(error).__name__}: {error}"


def _cluster_events(world: World) -> list[Json]:
    found = world.asked("sagemaker", "ListClusterEvents", ClusterName=world.cluster_name)
    return list((found or {}).get("Events") or [])[:ENTRIES]


def _lifecycle_logs(world: World) -> dict[str, list[str]]:
    """Also of nodes that are gone: HyperPod removes a node whose script failed, but not its log."""
    if world.cluster_id is None:
        return {}
    return {stream: world.stream(stream)[-LINES:] for stream in world.log_streams}


def _run(world: World) -> Json | None:
    """Without its spec, which the file has, and the files of the job."""
    return (
        None
        if world.run is None
        else {name: value for name, value in world.run.items() if name != "spec"}
    )
