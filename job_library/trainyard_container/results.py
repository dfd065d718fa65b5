"""What a program makes beside its checkpoints: its output directory, and what it left or changed in
its working directory. Both go to S3, and are there again at the next attempt.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainyard_contracts import places

from .run_files import UNPACKED_AT, inside
from .store import Missing, Store, StoreFailed, file_sha256

#: As a cluster's export takes them: so many files of the output, and of the working directory so
#: many that have so much together.
OUTPUT_FILES, WORKING_FILES, WORKING_BYTES = 20_000, 10_000, 20 * 1024**3
_AT_ONCE = 8
#: What Python makes by itself.
_NOBODYS = frozenset({"__pycache__"})
_KEY_BYTES = 800

_Seen = tuple[int, int]


class Results:
    """Of one host's run directory. `prefix`: of the run in the bucket; ends with a slash.

    `elsewhere`: directories outside of it, by the names below which their files belong to the
    output directory. They are read and written, and never moved: SageMaker takes them, too.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        run_dir: Path,
        elsewhere: Mapping[str, Path] | None = None,
    ) -> None:
        self._store, self._prefix, self._run_dir = store, prefix, run_dir
        self._elsewhere = dict(elsewhere or {})
        self._sent: dict[str, _Seen] = {}
        #: Files that were left out at the last look, by the limits above.
        self.left_out = 0

    def restore(self) -> int:
        """Bring what earlier attempts left; how many files. Raises StoreFailed, OSError, Unfit."""
        keys = [
            key.removeprefix(self._prefix)
            for part in (places.OUTPUT, places.WORK)
            for key in self._store.sizes(f"{self._prefix}{part}/")
            if not key.endswith("/")
        ]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._bring, keys))
        return len(keys)

    def _bring(self, name: str) -> None:
        path = self._path(name)
        temporary = path.with_name(f".{path.name}.restoring")
        try:
            self._store.fetch(self._prefix + name, temporary)
        except Missing:  # deleted since it was listed
            temporary.unlink(missing_ok=True)
            return
        os.replace(temporary, path)
        self._sent[name] = _seen(path.stat())

    def _path(self, name: str) -> Path:
        """Where a file lies on this host. Raises Unfit."""
        what = "a file of an earlier attempt"
        for part, top in self._elsewhere.items():
            if name.startswith(f"{part}/"):
                return inside(top, name.removeprefix(f"{part}/"), what)
        return inside(self._run_dir, name, what)

    def changed(self) -> list[str]:
        """What is not in S3 as it is here, by its path in the run's directory."""
        return self.looked()[1]

    def looked(self) -> tuple[list[str], list[str]]:
        """All files, and those that `changed` names."""
        self.left_out = 0
        output = [(places.OUTPUT, self._run_dir / places.OUTPUT), *self._elsewhere.items()]
        work = [(places.WORK, self._run_dir / places.WORK)]
        found = self._limited(self._all_below(output), OUTPUT_FILES, None)
        found += self._limited(self._all_below(work), WORKING_FILES, WORKING_BYTES)
        changed = [name for name, about in found if self._sent.get(name) != _seen(about)]
        return [name for name, _ in found], changed

    def size(self) -> tuple[int, int]:
        """Files and bytes of this host that are in S3."""
        sent = list(self._sent.values())
        return len(sent), sum(size for _, size in sent)

    def _limited(
        self, files: Iterator[tuple[str, os.stat_result]], most: int, most_bytes: int | None
    ) -> list[tuple[str, os.stat_result]]:
        found: list[tuple[str, os.stat_result]] = []
        size = 0
        for name, about in files:
            fits = most_bytes is None or size + about.st_size <= most_bytes
            if len(found) < most and fits and len(name.encode(errors="replace")) <= _KEY_BYTES:
                found.append((name, about))
                size += about.st_size
            else:
                self.left_out += 1
        return found

    def _all_below(self, tops: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, os.stat_result]]:
        for part, top in tops:
            yield from self._below(part, top)

    def _below(self, part: str, top: Path) -> Iterator[tuple[str, os.stat_result]]:
        """Plain files but those that are as the submission brought them, by their names in S3."""
        for folder, folders, names in os.walk(top):
            here = Path(part, Path(folder).relative_to(top)).as_posix()
            if part not in self._elsewhere and here in self._elsewhere:
                folders[:] = []
                continue
            folders[:] = sorted(set(folders) - _NOBODYS)
            for name in sorted(names):
                path, relative = Path(folder, name), f"{here}/{name}"
                try:
                    about = path.lstat()
                    relative.encode()
                except (OSError, UnicodeEncodeError):
                    self.left_out += 1
                    continue
                is_brought = part == places.WORK and int(about.st_mtime) == UNPACKED_AT
                if stat.S_ISREG(about.st_mode) and not is_brought:
                    yield relative, about

    def send(self, names: Iterable[str], until: Callable[[], bool] = lambda: False) -> str:
        """Bring these files to S3; '' or why one of them is not there. `until`: nothing more is
        begun.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda name: "" if until() else self._send(name), names)
            problems = [problem for problem in found if problem]
        return problems[0] if problems else ""

    def _send(self, name: str) -> str:
        path = self._path(name)
        try:
            about = path.stat()
            self._store.send(path, self._prefix + name, file_sha256(path))
        except FileNotFoundError:  # the program removed it
            return ""
        except (StoreFailed, OSError) as error:
            return f"{name}: {error}"
        self._sent[name] = _seen(about)
        return ""


def _seen(about: os.stat_result) -> _Seen:
    return about.st_mtime_ns, about.st_size
