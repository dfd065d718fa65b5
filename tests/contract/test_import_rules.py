"""The import rules hold, and each of them fails when it is broken on a copy of the packages."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.repository import ROOT

MEMBERS = (
    *("layers/contracts", "layers/core", "node_agent", "job_library", "trainers"),
    *("localcloud", "cli"),
)
LINT = Path(sys.executable).parent / "lint-imports"
PURE = [ROOT / "layers/core/trainyard/domain", ROOT / "layers/contracts/trainyard_contracts"]
#: All that they may import: but for the names below, nothing there knows time or surroundings.
IMPORTED = {
    *("__future__", "abc", "base64", "binascii", "bisect", "zlib"),
    *("signal",),  # the names of signals
    *("email", "ipaddress", "urllib"),  # how dates, addresses and URLs are written
    *("collections", "contextlib", "dataclasses", "datetime"),
    *("enum", "functools", "hashlib", "hmac", "itertools", "json", "math", "operator", "re"),
    *("string", "types", "typing", "typing_extensions", "unicodedata", "pydantic", "pydantic_core"),
    *("base64", "binascii", "zlib", "zoneinfo"),
    *("trainyard", "trainyard_contracts"),
}
#: Of the classes of `datetime`, whatever they are called here.
CLOCKS = {"now", "utcnow", "today"}
SURROUNDINGS = {"__import__", "open", "input", "eval", "exec"}


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
            "layers/core/trainyard/outside/__init__.py",
            "import trainyard.ports",
            "control plane layers",
        ),
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
            "no circles",
        ),
        (
            "layers/core/trainyard/domain/words.py",
            "import trainyard.domain.kinds",
            "no circles",
        ),
        (
            "layers/contracts/trainyard_contracts/base.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    import trainyard_contracts.events",
            "no circles",
        ),
        (
            "layers/contracts/trainyard_contracts/__init__.py",
            "import trainyard_agent",
            "contracts know nothing of those who keep them",
        ),
        ("layers/core/trainyard/app/__init__.py", "import boto3", "only adapters know AWS"),
        ("cli/trainyard_cli/overrides.py", "import trainyard_cli.screen.live", "rooms of the CLI"),
        ("cli/trainyard_sdk/client.py", "import trainyard_sdk.downloads", "rooms of the SDK"),
        (
            "cli/trainyard_sdk/client.py",
            "import rich",
            "the SDK knows nothing of the command line",
        ),
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
            "layers/core/trainyard/http/runs.py",
            "import trainyard.app.runs.cancel_run",
            "changes go through what a person may do",
        ),
        (
            "layers/core/trainyard/chat/commands.py",
            "import trainyard.app.runs.cancel_run",
            "changes go through what a person may do",
        ),
        ("layers/core/trainyard/chat/__init__.py", "import trainyard.http", "control plane layers"),
        (
            "layers/core/trainyard/chat/front/__init__.py",
            "import pydantic",
            "what Slack waits for needs the standard library only",
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
            "job_library/trainyard_job/common/__init__.py",
            "import trainyard_job.checkpoints",
            "the job library's rooms",
        ),
        (
            "job_library/trainyard_job/common/__init__.py",
            "import torch",
            "the job library needs the standard library only",
        ),
        (
            "job_library/trainyard_job/common/__init__.py",
            "import trainyard_trainers",
            "the job library needs the standard library only",
        ),
        (
            "job_library/trainyard_container/__init__.py",
            "import trainyard_contracts.files",
            "containers of training jobs need the standard library and boto3",
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
            "no circles",
        ),
        (
            "localcloud/trainyard_local/hyperpod/state.py",
            "if TYPE_CHECKING:\n    import trainyard_local.hyperpod.cluster",
            "no circles",
        ),
        (
            "localcloud/trainyard_local/nodes/__init__.py",
            "import trainyard_local.hyperpod.cluster",
            "trainyard_local layers",
        ),
        (
            "node_agent/lifecycle/step_network.py",
            "import trainyard_agent.host.boot",
            "lifecycle scripts take two modules of ours",
        ),
        (
            "node_agent/lifecycle/step_network.py",
            "import trainyard_job.common.files",
            "lifecycle scripts take two modules of ours",
        ),
        (
            "node_agent/trainyard_agent/host/slurm_settings.py",
            "import trainyard_contracts.places",
            "lifecycle scripts need the standard library only",
        ),
        (
            "job_library/trainyard_job/common/files.py",
            "import torch",
            "lifecycle scripts need the standard library only",
        ),
        (
            "node_agent/trainyard_agent/__init__.py",
            "import trainyard_job.common.exits",
            "an agent takes the contracts only",
        ),
        (
            "layers/core/trainyard/backends/lifecycle_bundle.py",
            "import trainyard_agent",
            "only nodes take what runs on nodes",
        ),
        (
            "localcloud/trainyard_local/nodes/__init__.py",
            "import trainyard_contracts.places",
            "the local cloud takes no words of ours",
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
    [
        "node_agent/trainyard_agent",
        "layers/core/trainyard",
        "layers/core/trainyard/app",
        "layers/core/trainyard/app/machines",
        "cli/trainyard_cli",
        "cli/trainyard_sdk",
        "localcloud/sam_on_moto",
        "localcloud/trainyard_local",
    ],
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


def impure(source: str) -> list[int]:
    """Lines that make a function answer differently twice."""
    nodes = list(ast.walk(ast.parse(source)))
    dates = {"datetime", "date"} | {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "datetime"
        for alias in node.names
    }
    return [node.lineno for node in nodes if _is_impure(node, dates)]


def _is_impure(node: ast.AST, dates: set[str]) -> bool:
    """`dates`: names of the classes that know the time; a name of one's own only by a call."""
    match node:
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] not in IMPORTED for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.partition(".")[0] not in IMPORTED
        case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
            return True
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
            return name in CLOCKS and owner in dates
        case ast.Name(id=name):
            return name in SURROUNDINGS
    return False


def test_the_domain_and_the_contracts_never_ask_for_time_or_surroundings() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for directory in PURE
        for path in sorted(directory.rglob("*.py"))
        for line in impure(path.read_text())
    ]
    assert not found, f"not pure, or imports what IMPORTED does not name: {found}"


@pytest.mark.parametrize(
    "source",
    [
        "from time import time; time()",
        "from time import time_ns as count",
        "import time as t; t.monotonic()",
        "from datetime import date; date.today()",
        "from datetime import datetime as d; d.now()",
        "import datetime as dt; dt.datetime.utcnow()",
        "from datetime import datetime as d; clock = d.now",
        "from datetime import datetime; d = datetime; d.now()",
        "import importlib; importlib.import_module('time')",
        "__import__('time').time()",
        "import os; os.environ",
        "from os.path import exists",
        "import secrets",
        "open('/etc/hostname')",
    ],
)
def test_what_is_not_pure_is_found_by_whatever_name_it_goes(source: str) -> None:
    assert impure(source)


def test_a_time_that_was_given_is_pure() -> None:
    assert not impure("from datetime import timedelta; draft.now + timedelta(seconds=1)")
