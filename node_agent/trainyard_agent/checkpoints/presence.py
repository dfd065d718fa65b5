"""Whether something is there, as far as the filesystem says so."""

from __future__ import annotations

import stat
from pathlib import Path


def absent(path: Path) -> bool:
    """Whether the filesystem says that there is no such thing; any other error says nothing."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def no_directory(path: Path) -> bool:
    """Whether the filesystem says that there is none."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False
