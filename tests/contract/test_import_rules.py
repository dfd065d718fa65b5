"""The import rules hold, and each of them fails when it is broken on a copy of the packages."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = ("layers/contracts", "layers/core", "node_agent", "trainers", "localcloud", "cli")
LINT = Path(sys.executable).parent / "lint-imports"
PURE = [ROOT / "layers/core/trainyard/domain", ROOT / "layers/contracts/trainyard_contracts"]
#: Calls that make a pure function answer differently twice.
IMPURE = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("time", "time"),
    ("time", "monotonic"),
    ("os", "environ"),
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of every package that a test may break."""
    copy = tmp_path_factory.mktemp("workspace")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for member in MEMBERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / member, copy / member, ignore=ignored)
    return copy


def _lint(where: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(where / member) for member in MEMBERS),
    }
    return subprocess.run(
        [str(LINT), "--no-cache"],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_every_import_rule_is_kept(workspace: Path) -> None:
    done = _lint(workspace)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line", "rule"),
    [
        (
            "layers/core/trainyard/domain/__init__.py",
            "import trainyard.aws",
            "control plane layers",
        ),
        ("layers/core/trainyard/app/__init__.py", "import trainyard.http", "control plane layers"),
        (
            "node_agent/trainyard_agent/nodes/__init__.py",
            "import trainyard_agent.jobs.attempts",
            "agent rooms",
        ),
        (
            "node_agent/trainyard_agent/checks/__init__.py",
            "import trainyard_agent.events.store",
            "agent rooms",
        ),
        (
            "node_agent/trainyard_agent/nodes/liveness.py",
            "import trainyard_agent.nodes.questions",
            "no circles in the agent",
        ),
        ("layers/core/trainyard/app/__init__.py", "import boto3", "only adapters know AWS"),
        ("cli/trainyard_cli/api/client.py", "import trainyard_cli.screen.live", "rooms of the CLI"),
        (
            "layers/core/trainyard/app/__init__.py",
            "import trainyard.aws.refusals",
            "only adapters know AWS",
        ),
        (
            "layers/core/trainyard/aws/__init__.py",
            "import trainyard.backends.hyperpod.backend",
            "control plane layers",
        ),
        (
            "layers/core/trainyard/domain/__init__.py",
            "import boto3",
            "domain and contracts are pure",
        ),
        (
            "layers/core/trainyard/app/runs/__init__.py",
            "import trainyard.app.machines.inputs",
            "rooms of the use cases",
        ),
        (
            "layers/core/trainyard/app/facts/__init__.py",
            "import trainyard.app.clusters.list_nodes",
            "rooms of the use cases",
        ),
        (
            "layers/core/trainyard/app/machines/cluster/__init__.py",
            "import trainyard.app.machines.run.finish",
            "rooms of the state machines",
        ),
        (
            "layers/core/trainyard/app/runs/__init__.py",
            "import trainyard.backends.hyperpod.states",
            "only the wiring knows a backend",
        ),
        (
            "layers/core/trainyard/backends/lifecycle_bundle.py",
            "import trainyard.backends.hyperpod.states",
            "backends know nothing of each other",
        ),
        (
            "layers/contracts/trainyard_contracts/__init__.py",
            "import uuid",
            "domain and contracts are pure",
        ),
        (
            "node_agent/trainyard_agent/__init__.py",
            "import trainyard.domain",
            "agent, trainers, local cloud and CLI know nothing",
        ),
        (
            "cli/trainyard_cli/__init__.py",
            "import trainyard.ports",
            "agent, trainers, local cloud and CLI know nothing",
        ),
        (
            "trainers/trainyard_trainers/__init__.py",
            "import trainyard_contracts",
            "trainers are torch and the standard library",
        ),
        (
            "trainers/trainyard_trainers/common/__init__.py",
            "import trainyard_trainers.checkpoints",
            "trainers' rooms",
        ),
        (
            "trainers/trainyard_trainers/ddp/__init__.py",
            "import trainyard_trainers.launch",
            "trainers' rooms",
        ),
        (
            "trainers/trainyard_trainers/loop/__init__.py",
            "import trainyard_trainers.attempt",
            "trainers' rooms",
        ),
        (
            "localcloud/sam_on_moto/gateway/__init__.py",
            "import trainyard_local.quirks",
            "sam_on_moto knows nothing of Trainyard",
        ),
        (
            "localcloud/sam_on_moto/moto_patches/__init__.py",
            "import sam_on_moto.cloud",
            "sam_on_moto layers",
        ),
        (
            "localcloud/sam_on_moto/cloud.py",
            "if TYPE_CHECKING:\n    import sam_on_moto.functions.registry",
            "no circles in the local cloud",
        ),
        (
            "localcloud/trainyard_local/hyperpod/state.py",
            "if TYPE_CHECKING:\n    import trainyard_local.hyperpod.cluster",
            "no circles in the local cloud",
        ),
        (
            "localcloud/trainyard_local/nodes/__init__.py",
            "import trainyard_local.hyperpod.cluster",
            "trainyard_local layers",
        ),
        (
            "localcloud/sam_on_moto/wire/__init__.py",
            "import trainyard.domain",
            "agent, trainers, local cloud and CLI know nothing",
        ),
    ],
)
def test_a_rule_fails_when_it_is_broken_on_purpose(
    workspace: Path, module: str, line: str, rule: str
) -> None:
    source = workspace / module
    before = source.read_text()
    source.write_text(f"{before}\n{line}\n")
    try:
        done = _lint(workspace)
    finally:
        source.write_text(before)
    assert done.returncode != 0
    broken = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    assert any(text.startswith(rule) for text in broken), done.stdout


@pytest.mark.parametrize(
    "package",
    ["node_agent/trainyard_agent", "localcloud/sam_on_moto", "localcloud/trainyard_local"],
)
def test_a_module_without_a_room_is_found(workspace: Path, package: str) -> None:
    stray = workspace / package / "stray.py"
    stray.touch()
    try:
        done = _lint(workspace)
    finally:
        stray.unlink()
    assert done.returncode != 0
    assert "stray" in done.stdout


def test_the_domain_and_the_contracts_never_ask_for_time_or_surroundings() -> None:
    for path in (file for directory in PURE for file in sorted(directory.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in IMPURE, (
                    f"{path.relative_to(ROOT)}:{node.lineno} is not pure"
                )
