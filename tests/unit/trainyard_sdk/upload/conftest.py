"""Fixtures of uploads: a cache of the test's own, and a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trainyard" / "packed"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def aged(root: Path, seconds: float = 60.0) -> None:
    """Make all files look as if nobody had changed them lately; their ctime cannot be set."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            seen = path.stat()
            os.utime(path, (seen.st_atime - seconds, seen.st_mtime - seconds))
