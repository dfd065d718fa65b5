"""Checks every state machine with asl-validator, installed by npm from its lock into build/asl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.node_lint import MISSING, installed  # noqa: E402


def main() -> int:
    npm = shutil.which("npm")
    if npm is None:
        print(
            f"asl-validator {MISSING}",
            file=sys.stderr,
        )
        return 1 if os.environ.get("CI") else 0
    machines = sorted((ROOT / "statemachines").glob("*.asl.json"))
    if not machines:
        print("no state machine found in statemachines/", file=sys.stderr)
        return 1
    paths = [part for machine in machines for part in ("--json-path", str(machine))]
    return subprocess.run(
        [str(installed(npm, "asl") / "asl-validator"), *paths],
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
