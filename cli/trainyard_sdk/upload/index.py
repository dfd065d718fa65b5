"""Remembers the hashes of files that did not change, so that a second pack does not read them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from .scan import Entry

#: A file that changed so shortly before it was read may change again without another time on it:
#: the coarsest clocks of file systems tick every two seconds.
TICK_NS = 2_000_000_000
_VERSION = 1


def cache_directory() -> Path:
    """Where the user's caches lie (XDG)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path("~/.cache").expanduser()
    return base / "trainyard"


class Index:
    """Hashes of one directory's files by what `stat` says of them, and of its packs.

    It is a cache: without it, or with a broken one, everything is read again.
    """

    def __init__(self, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]
        self._path = cache_directory() / "packed" / f"{name}.json"
        read = _read(self._path)
        self._files: dict[str, list[Any]] = read.get("files", {})
        self._packs: dict[str, list[str]] = read.get("packs", {})
        #: What the newest pack needed; nothing else is kept.
        self._new_files: dict[str, list[Any]] = {}
        self._new_packs: dict[str, list[str]] = {}

    def hash_of(self, entry: Entry) -> str | None:
        """The file's SHA-256, if it is known not to have changed."""
        known = self._files.get(entry.path)
        if known is None or known[:4] != _seen(entry):
            return None
        self._new_files[entry.path] = known
        return str(known[4])

    def keep(self, entry: Entry, sha256: str, read_at_ns: int) -> None:
        """Remember a hash, unless the file may change once more in the same tick of the clock."""
        if read_at_ns - max(entry.mtime_ns, entry.ctime_ns) > TICK_NS:
            self._new_files[entry.path] = self._files[entry.path] = [*_seen(entry), sha256]

    def packs_of(self, key: str) -> list[str] | None:
        """The hashes of the packs that hold these contents."""
        known = self._packs.get(key)
        if known is not None:
            self._new_packs[key] = known
        return known

    def keep_packs(self, key: str, packs: list[str]) -> None:
        self._new_packs[key] = self._packs[key] = packs

    def save(self) -> None:
        """Replace it at once: of two that pack at the same time the later one's stays."""
        document = {"version": _VERSION, "files": self._new_files, "packs": self._new_packs}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, suffix=".tmp")
        except OSError:
            return
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps(document))  # json.dump is ten times slower
            os.replace(temporary, self._path)
        except OSError:  # a full disk costs the next pack some reading
            Path(temporary).unlink(missing_ok=True)


def now_ns() -> int:
    return time.time_ns()


def _seen(entry: Entry) -> list[int]:
    return [entry.bytes, entry.mtime_ns, entry.ctime_ns, entry.inode]


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
        if document["version"] != _VERSION:
            return {}
        files, packs = document["files"], document["packs"]
        whole = all(len(known) == 5 for known in files.values()) and all(
            isinstance(known, list) for known in packs.values()
        )
        return {"files": files, "packs": packs} if whole else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
