"""Installs checks that npm has from their lock, once, below build/."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What a machine without npm is told.
MISSING = "needs node and npm, which are not installed: sudo apt-get install -y nodejs npm"


def installed(npm: str, name: str) -> Path:
    """Where the programs of requirements/<name> are; npm runs only when the lock changed."""
    lock_folder, where = ROOT / "requirements" / name, ROOT / "build" / name
    lock = (lock_folder / "package-lock.json").read_bytes()
    stamp = where / "installed.lock"
    if not (stamp.exists() and stamp.read_bytes() == lock):
        where.mkdir(parents=True, exist_ok=True)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(lock_folder / file, where / file)
        subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=where,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        stamp.write_bytes(lock)
    return where / "node_modules/.bin"
