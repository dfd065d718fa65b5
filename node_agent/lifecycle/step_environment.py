"""The Python that jobs run with: a venv or conda environment made here, or an existing one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from node import Node, StepFailed, repeatedly, say

from trainyard_trainers.launch import environments
from trainyard_trainers.launch.environments import INSTALL_TIMEOUT_SECONDS, EnvironmentFailed

#: Written last: an interpreter that can be run does not say that the environment is whole.
STAMP = "trainyard-environment.json"
__all__ = ["INSTALL_TIMEOUT_SECONDS", "job_environment", "job_python"]


def job_python(node: Node) -> str:
    """Interpreter of the jobs' environment."""
    return local_python(node) if stood_for(node) else str(wanted(node)[1] / "bin" / "python")


def local_python(node: Node) -> str:
    """The interpreter that the local cloud gives its nodes; it has torch. Empty on AWS."""
    return node.environ.get("TRAINYARD_PYTHON", "") if node.local else ""


def stood_for(node: Node) -> bool:
    """Without requirements, and for conda, a local node's own Python is the environment."""
    kind, _, requirements = wanted(node)
    return bool(local_python(node)) and not (kind == "venv" and requirements)


def wanted(node: Node) -> tuple[str, Path, Sequence[str]]:
    """Kind, place and requirements.

    Local nodes have roots of their own, but a job's interpreter has one path on all, so they share
    it.
    """
    environment = node.cluster.get("environment") or {}
    path = node.path(environment.get("path") or "/opt/trainyard/env")
    if local_python(node):
        path = Path(
            node.environ["TRAINYARD_SHARED"],
            "trainyard",
            "environments",
            node.cluster["clusterName"],
        )
    return environment.get("kind") or "venv", path, environment.get("requirements") or []


def job_environment(node: Node) -> None:
    kind, path, requirements = wanted(node)
    python = Path(job_python(node))
    if stood_for(node):
        say(f"skipped: {kind} environment: TRAINYARD_PYTHON={python} stands for it")
    elif kind == "existing":
        if not os.access(python, os.X_OK):
            raise StepFailed(
                f"environment.kind is 'existing', but {python} is not there; "
                "make it in the image or use kind 'venv'"
            )
    elif node.identity.role == "worker":
        # A package index may be out of reach while the network comes up.
        repeatedly(
            node,
            "job environment",
            lambda: attempt(kind, path, python, requirements, local_python(node)),
        )
    else:
        say(f"a {node.identity.role} runs no jobs: no environment made")


def attempt(kind: str, path: Path, python: Path, requirements: Sequence[str], base: str) -> None:
    try:
        build(kind, path, python, requirements, base=base)
    except EnvironmentFailed as failed:
        raise StepFailed(
            f"environment.{failed}" if str(failed).startswith("kind ") else str(failed)
        ) from None


def build(kind: str, path: Path, python: Path, requirements: Sequence[str], *, base: str) -> None:
    """Make the environment if it is missing.

    With a base (local nodes) it sees what the base has, which is torch.
    """
    stamp, whole = path / STAMP, json.dumps([kind, *requirements])
    with environments.alone(path):  # one node at a time where nodes share the directory
        if stamp.exists() and stamp.read_text() == whole:
            say(f"{path} is there already")
            return
        environments.make(kind, path, base=base or "python3", version="3.11")
        if base:
            environments.see(base, python)
        environments.install(kind, python, requirements)
        part = stamp.with_name(STAMP + ".part")
        part.write_text(whole)
        part.replace(stamp)
