"""The Python that jobs run with: a venv or conda environment made here, or one that is there already."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from node import Node, StepFailed, command, say

CONDA_HOMES = ("/opt/conda/bin", "/opt/miniconda3/bin", "/opt/miniforge3/bin", "/root/miniconda3/bin")
INSTALL_TIMEOUT_SECONDS = 3600


def job_python(node: Node) -> str:
    """Interpreter of the jobs' environment."""
    return local_python(node) if stood_for(node) else str(wanted(node)[1] / "bin" / "python")


def local_python(node: Node) -> str:
    """The interpreter that the local cloud gives its nodes; it has torch. Empty on AWS."""
    return node.environ.get("TRAINYARD_PYTHON", "") if node.local else ""


def stood_for(node: Node) -> bool:
    """Where nothing is to be installed, and for conda, a local node's own Python stands for the environment."""
    kind, _, requirements = wanted(node)
    return bool(local_python(node)) and not (kind == "venv" and requirements)


def wanted(node: Node) -> tuple[str, Path, Sequence[str]]:
    """Kind, place and requirements. Local nodes have roots of their own, but a job's interpreter one path on all: there they share it."""
    environment = node.cluster.get("environment") or {}
    path = node.path(environment.get("path") or "/opt/trainyard/env")
    if local_python(node):
        path = Path(node.environ["TRAINYARD_SHARED"], "trainyard", "environments", node.cluster["clusterName"])
    return environment.get("kind") or "venv", path, environment.get("requirements") or []


def job_environment(node: Node) -> None:
    kind, path, requirements = wanted(node)
    python = Path(job_python(node))
    if stood_for(node):
        say(f"skipped: {kind} environment: TRAINYARD_PYTHON={python} stands for it")
    elif kind == "existing":
        if not os.access(python, os.X_OK):
            raise StepFailed(f"environment.kind is 'existing', but {python} is not there; make it in the image or use kind 'venv'")
    elif node.identity.role == "worker":
        with alone(path):
            make(kind, path, python, base=local_python(node))
            install(python, requirements)
    else:
        say(f"a {node.identity.role} runs no jobs: no environment made")


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One node at a time where nodes share the directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(python: Path, requirements: Sequence[str]) -> None:
    if requirements:
        # Its version check has the last word otherwise, in front of a person who looks for the reason.
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        command([*pip, *requirements], timeout=INSTALL_TIMEOUT_SECONDS)


def make(kind: str, path: Path, python: Path, *, base: str) -> None:
    """Make the environment if it is not there; with a base (local nodes), one that sees what the base has: torch."""
    if os.access(python, os.X_OK):
        say(f"{path} is there already")
    elif kind == "venv":
        command([base or "python3", "-m", "venv", str(path)], timeout=INSTALL_TIMEOUT_SECONDS)
    elif kind == "conda":
        command([find_conda(), "create", "--yes", "--quiet", "--prefix", str(path), "python=3.11", "pip"], timeout=INSTALL_TIMEOUT_SECONDS)
    else:
        raise StepFailed(f"environment.kind '{kind}' is unknown; use 'venv', 'conda' or 'existing'")
    if base:
        see(base, python)


def see(base: str, python: Path) -> None:
    """Whatever the environment has itself comes first."""
    packages = [
        command([program, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip() for program in (base, str(python))
    ]
    Path(packages[1], "base.pth").write_text(packages[0] + "\n")


def find_conda() -> str:
    found = shutil.which("conda", path=os.pathsep.join([os.environ.get("PATH", ""), *CONDA_HOMES]))
    if not found:
        raise StepFailed("environment.kind is 'conda', but no conda is installed on this image; use 'venv', or an image with conda")
    return found
