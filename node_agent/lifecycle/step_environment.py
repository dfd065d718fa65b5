"""The Python that jobs run with: a venv or conda environment made here, or one that is there already."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from node import Node, StepFailed, command, say

CONDA_HOMES = ("/opt/conda/bin", "/opt/miniconda3/bin", "/opt/miniforge3/bin", "/root/miniconda3/bin")
INSTALL_TIMEOUT_SECONDS = 3600


def job_python(node: Node) -> str:
    """Interpreter of the jobs' environment."""
    if node.local and node.environ.get("TRAINYARD_PYTHON"):
        return node.environ["TRAINYARD_PYTHON"]
    return str(wanted(node)[1] / "bin" / "python")


def wanted(node: Node) -> tuple[str, Path, Sequence[str]]:
    environment = node.cluster.get("environment") or {}
    path = environment.get("path") or "/opt/trainyard/env"
    return environment.get("kind") or "venv", node.path(path), environment.get("requirements") or []


def job_environment(node: Node) -> None:
    kind, path, requirements = wanted(node)
    python = Path(job_python(node))
    if node.local and node.environ.get("TRAINYARD_PYTHON"):
        say(f"skipped: {kind} environment: TRAINYARD_PYTHON={python} stands for it")
    elif kind == "existing":
        if not os.access(python, os.X_OK):
            raise StepFailed(f"environment.kind is 'existing', but {python} is not there; make it in the image or use kind 'venv'")
    elif node.identity.role == "worker":
        make(kind, path, python)
        if requirements:
            # Its version check has the last word otherwise, in front of a person who looks for the reason.
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            command([*pip, *requirements], timeout=INSTALL_TIMEOUT_SECONDS)
    else:
        say(f"a {node.identity.role} runs no jobs: no environment made")


def make(kind: str, path: Path, python: Path) -> None:
    if os.access(python, os.X_OK):
        say(f"{path} is there already")
    elif kind == "venv":
        command(["python3", "-m", "venv", str(path)], timeout=INSTALL_TIMEOUT_SECONDS)
    elif kind == "conda":
        command([find_conda(), "create", "--yes", "--quiet", "--prefix", str(path), "python=3.11", "pip"], timeout=INSTALL_TIMEOUT_SECONDS)
    else:
        raise StepFailed(f"environment.kind '{kind}' is unknown; use 'venv', 'conda' or 'existing'")


def find_conda() -> str:
    found = shutil.which("conda", path=os.pathsep.join([os.environ.get("PATH", ""), *CONDA_HOMES]))
    if not found:
        raise StepFailed("environment.kind is 'conda', but no conda is installed on this image; use 'venv', or an image with conda")
    return found
