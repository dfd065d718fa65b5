"""Runs every check of `make check`, two at a time, and shows failures and how long each took."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
PACKAGES = (
    "layers/contracts/trainyard_contracts",
    "layers/core/trainyard",
    "node_agent/trainyard_agent",
    "job_library/trainyard_job",
    "job_library/trainyard_container",
    "trainers/trainyard_trainers",
    "localcloud/sam_on_moto",
    "localcloud/trainyard_local",
    "cli/trainyard_cli",
    "cli/trainyard_sdk",
)
#: HyperPod's images have Python 3.10 (docs/aws-assumptions.md, A-034).
LIFECYCLE = ROOT / "node_agent/lifecycle"
ON_NODES = (
    "--python-version=3.10",
    "layers/contracts/trainyard_contracts",
    "node_agent/trainyard_agent",
    "job_library/trainyard_job",
    "job_library/trainyard_container",
    "trainers/trainyard_trainers",
    *map(str, sorted(LIFECYCLE.glob("*.py"))),
)


@dataclass(frozen=True)
class Check:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def checks() -> list[Check]:
    """Slow ones first, so that two workers finish together."""
    handlers = sorted(ROOT.glob("functions/*/handler.py"))
    return [
        Check("sam validate and build", python("scripts/sam.py")),
        Check("mypy, packages", [str(BIN / "mypy"), *PACKAGES]),
        Check("mypy, as on nodes", [str(BIN / "mypy"), *ON_NODES], {"MYPYPATH": str(LIFECYCLE)}),
        Check("mypy, demo and bench", [str(BIN / "mypy"), "demo", "bench"]),
        Check("asl-validator", python("scripts/asl.py")),
        Check("cfn-lint", [str(BIN / "cfn-lint"), "template.yaml", "network.yaml"]),
        # Handlers share one module name, so each is a program of its own to mypy.
        *(
            Check(f"mypy, {path.relative_to(ROOT)}", [str(BIN / "mypy"), str(path)])
            for path in handlers
        ),
        *(
            Check(f"mypy, {path.relative_to(ROOT)}", [str(BIN / "mypy"), str(path)])
            for path in sorted(ROOT.glob("scripts/*.py"))
        ),
        Check("import rules", [str(BIN / "lint-imports")]),
        Check("openapi fresh", python("scripts/openapi.py", "--check")),
        Check("answers of the SDK fresh", python("scripts/sdk_answers.py", "--check")),
        Check("schemas fresh", python("scripts/schemas.py", "--check")),
        Check("reference fresh", python("scripts/reference.py", "--check")),
        Check("state machines fresh", python("scripts/statemachines.py", "--check")),
        Check("ruff format", [str(BIN / "ruff"), "format", "--check", "."]),
        Check("ruff check", [str(BIN / "ruff"), "check", "."]),
    ]


def run(check: Check) -> bool:
    started = time.monotonic()
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "AWS_DEFAULT_REGION": "us-east-1",
        **check.environment,
    }
    done = subprocess.run(
        check.command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    ok = done.returncode == 0
    lines = [f"{'ok  ' if ok else 'FAIL'} {time.monotonic() - started:6.1f} s  {check.name}"]
    if not ok:
        lines += [f"     $ {' '.join(check.command)}", done.stdout.rstrip()]
    print("\n".join(lines), flush=True)
    return ok


def main() -> int:
    started = time.monotonic()
    (ROOT / "build").mkdir(exist_ok=True)
    with ThreadPoolExecutor(max_workers=2) as workers:
        results = list(workers.map(run, checks()))
    failed = results.count(False)
    print(
        (
            f"check: {len(results) - failed} of {len(results)} passed in "
            f"{time.monotonic() - started:.0f} s"
        ),
        flush=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
