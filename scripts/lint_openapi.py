"""Judges docs/openapi.json by redocly and spectral, which npm installs from their lock."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.node_lint import MISSING, installed  # noqa: E402

RULES = ROOT / "requirements/openapi"
DOCUMENT = ROOT / "docs/openapi.json"


def commands(programs: Path) -> list[list[str]]:
    return [
        [str(programs / "redocly"), "lint", f"--config={RULES / 'redocly.yaml'}", str(DOCUMENT)],
        [
            *(str(programs / "spectral"), "lint", "--fail-severity=warn"),
            *(f"--ruleset={RULES / 'spectral.yaml'}", str(DOCUMENT)),
        ],
    ]


def main() -> int:
    npm = shutil.which("npm")
    if npm is None:
        print(f"redocly {MISSING}", file=sys.stderr)
        return 1
    environment = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "1"}
    codes = [
        subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False
        ).returncode
        for command in commands(installed(npm, "openapi"))
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
