"""Validates the templates and builds template.yaml with the SAM CLI from its own environment."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv-sam"
LOCK = ROOT / "requirements/sam.txt"
BUILD = ROOT / "build/sam"


def _runs(python: str) -> bool:
    """Whether this is a working Python 3.13; a pyenv shim exists even when its version is off."""
    probe = [python, "-c", "import sys, venv; sys.exit(sys.version_info[:2] != (3, 13))"]
    try:
        return subprocess.run(probe, capture_output=True, check=False, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def find_python313() -> str | None:
    """python3.13 from the PATH or from pyenv's versions, or None."""
    candidates = [found] if (found := shutil.which("python3.13")) else []
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run(
            [pyenv, "root"], capture_output=True, text=True, check=False
        ).stdout.strip()
        candidates += sorted(str(path) for path in Path(root).glob("versions/3.13*/bin/python3.13"))
    return next((python for python in candidates if _runs(python)), None)


def how_to_get_python313() -> str:
    return (
        "sam build needs python3.13, the runtime of the functions, and there is none on the "
        "PATH nor among pyenv's versions.\n"
        "Get it with one of:  pyenv install 3.13  |  uv python install 3.13  |  sudo apt-get "
        "install python3.13-venv (where the distribution has it)"
    )


def ensure_environment(python: str) -> Path:
    """The directory of sam's programs, installed from the lock unless that was done before."""
    stamp = VENV / "trainyard-sam.stamp"
    wanted = hashlib.sha256(LOCK.read_bytes() + str(ROOT).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([python, "-m", "venv", str(VENV)], check=True)
        pip = [
            str(VENV / "bin/python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, "-r", str(LOCK)], check=True, stdin=subprocess.DEVNULL)
        stamp.write_text(wanted)
    return VENV / "bin"


def main() -> int:
    python = find_python313()
    if python is None:
        print(how_to_get_python313(), file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    programs = ensure_environment(python)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "SAM_CLI_TELEMETRY": "0",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    sam = str(programs / "sam")
    for command in (
        [sam, "validate", "--lint", "--template", str(ROOT / "template.yaml")],
        [sam, "validate", "--lint", "--template", str(ROOT / "network.yaml")],
        [
            sam,
            "build",
            "--parallel",
            "--template",
            str(ROOT / "template.yaml"),
            "--build-dir",
            str(BUILD),
        ],
    ):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            return done.returncode
    found = faults(BUILD)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


def faults(build: Path) -> list[str]:
    """What is wrong with the layers that were built."""
    core = build / "CoreLayer/python"
    unwanted = [name for name in ("torch", "moto") if (core / name).exists()]
    wrong = unwanted or not (core / "trainyard").is_dir()
    found = (
        [f"{core} holds {unwanted or 'no trainyard'}: the layer's requirements.txt is wrong"]
        if wrong
        else []
    )
    for layer in (build / "ContractsLayer/python", core):
        bare = [module for module in layer.rglob("*.py") if not _compiled(module).exists()]
        if bare:
            found.append(
                f"{layer} holds {len(bare)} modules that are not compiled, {bare[0]} first: "
                "a cold start would compile them"
            )
    packages = build / "NodeBundleLayer/packages"
    missing = [
        name
        for name in ("linux-x86_64.zip", "linux-aarch64.zip", "pip.whl")
        if not (packages / name).is_file()
    ]
    if missing:
        found.append(
            f"{packages} lacks {', '.join(missing)}: nodes would have no packages for their agent"
        )
    return found


def _compiled(module: Path) -> Path:
    return module.parent / "__pycache__" / f"{module.stem}.cpython-313.pyc"


if __name__ == "__main__":
    sys.exit(main())
