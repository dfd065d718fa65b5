"""Checks every state machine with asl-validator, installed by npm from its lock into build/asl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements/asl"
WHERE = ROOT / "build/asl"


def ensure_validator(npm: str) -> Path:
    """The validator's program; npm runs only when the lock changed."""
    program = WHERE / "node_modules/.bin/asl-validator"
    lock = (LOCK / "package-lock.json").read_bytes()
    stamp = WHERE / "installed.lock"
    if program.exists() and stamp.exists() and stamp.read_bytes() == lock:
        return program
    WHERE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCK / name, WHERE / name)
    subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=WHERE,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    stamp.write_bytes(lock)
    return program


def main() -> int:
    npm = shutil.which("npm")
    if npm is None:
        print(
            (
                "asl-validator needs node and npm, which are not installed: "
                "sudo apt-get install -y nodejs npm"
            ),
            file=sys.stderr,
        )
        return 1 if os.environ.get("CI") else 0
    machines = sorted((ROOT / "statemachines").glob("*.asl.json"))
    if not machines:
        print("no state machine found in statemachines/", file=sys.stderr)
        return 1
    paths = [part for machine in machines for part in ("--json-path", str(machine))]
    return subprocess.run(
        [str(ensure_validator(npm)), *paths], stdin=subprocess.DEVNULL, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
