"""Builds the wheels that users install, without a network and the same bytes each time.

python scripts/wheels.py [DIRECTORY]

The directory is by default `dist/`. `trainyard` holds the command, the SDK and the contracts; the
other two are what its extra `local` asks for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Of each distribution: its folder, and what of it goes into its wheel.
DISTRIBUTIONS = {
    "trainyard": (
        ".",
        (
            "pyproject.toml",
            "LICENSE",
            "cli/README.md",
            "cli/trainyard_cli",
            "cli/trainyard_sdk",
            "layers/contracts/trainyard_contracts",
        ),
    ),
    "sam-on-moto": ("localcloud/sam_on_moto", (".",)),
    "trainyard-local": ("localcloud", ("pyproject.toml", "trainyard_local")),
}
#: Zip files know no earlier time; with one time the same sources are the same bytes.
EPOCH = "315532800"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", "build", "dist")


def copied(name: str, place: Path) -> Path:
    """The sources alone: what a build left in the clone would get into the next wheel."""
    folder, parts = DISTRIBUTIONS[name]
    target = place / name
    for part in parts:
        source, copy = ROOT / folder / part, target / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=_LEFT_OUT, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, copy)
    return target


def build(name: str, directory: Path) -> None:
    """Raises CalledProcessError; its output has the reason."""
    with tempfile.TemporaryDirectory(prefix="trainyard-wheel-") as place:
        command = [
            *(sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check"),
            *("--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(directory)),
            str(copied(name, Path(place))),
        ]
        subprocess.run(
            command,
            check=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        )


def main(argv: Sequence[str]) -> int:
    if len(argv) > 1:
        print("usage: python scripts/wheels.py [DIRECTORY]", file=sys.stderr)
        return 2
    directory = Path(argv[0]) if argv else ROOT / "dist"
    directory.mkdir(parents=True, exist_ok=True)
    for name in DISTRIBUTIONS:
        build(name, directory)
    for wheel in sorted(directory.glob("*.whl")):
        print(f"{wheel.stat().st_size:>9}  {wheel}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
