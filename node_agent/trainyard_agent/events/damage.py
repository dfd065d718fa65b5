"""What is done with a store that is damaged, or has no room."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from pathlib import Path

log = logging.getLogger(__name__)


def set_damaged_aside(path: Path) -> None:
    """Move a file away that SQLite cannot read: it would end every agent that starts.

    The agent asks the shared filesystem and Slurm again for what the file held.
    """
    if not path.exists():
        return
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=5)) as connection:
            [(verdict,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.OperationalError:
        return  # the disk is full or read-only; the file itself is whole
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict == "ok":
        return
    log.error(
        "%s is damaged (%s): it is set aside, and what waited in it to be sent is lost",
        path,
        verdict,
    )
    for ending in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{ending}", f"{path}.damaged{ending}")


def no_room(error: sqlite3.OperationalError) -> bool:
    """SQLite says in four ways that a file cannot grow."""
    return any(
        words in str(error)
        for words in ("full", "disk I/O error", "readonly", "unable to open database file")
    )
