"""Keeps the checkpoints of programs safe that save in their own way: what is complete on the first
host is copied, and the copy goes to S3 by the same manifest as any checkpoint, which is sent last.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainyard_contracts import places

from .events import moment
from .matches import Match, Torn, find, look, proven, step_in
from .publishing import Report
from .store import Store, StoreFailed, file_sha256
from .surroundings import Surroundings

_LOOK_SECONDS = 1.0
#: Looks take this share of the time at most.
_SHARE = 0.25
_BLOCK = 1 << 20
#: In the attempt's directory: a copy on its way to S3.
_HELD = ".watch-held"


class Unsteady(Exception):
    """The program's file changed while it was copied."""


@dataclass(frozen=True)
class Order:
    """What of a bundle is about it."""

    patterns: list[str]
    complete: str
    stable_seconds: float
    marker: str
    keep: int
    ranks: int

    @classmethod
    def of(cls, bundle: Mapping[str, Any]) -> Order | None:
        asked = bundle.get("checkpointWatch")
        if not asked:
            return None
        pattern = asked["pattern"]
        return cls(
            [pattern] if isinstance(pattern, str) else list(pattern),
            str(asked.get("complete") or "auto"),
            float(asked.get("stableSeconds") or 5.0),
            str(asked.get("marker") or ""),
            max(1, int(bundle.get("checkpointKeep") or 3)),
            int(bundle["nodes"]) * int(bundle["processesPerNode"]),
        )


class Watching:
    """Of the first host, in a thread. `step`: the newest that the program reported, if any."""

    def __init__(
        self,
        where: Surroundings,
        store: Store,
        order: Order,
        step: Callable[[], int | None],
        report: Report,
    ) -> None:
        self._where, self._store, self._order = where, store, order
        self._step, self._report = step, report
        self._at = f"{where.data.prefix}{places.WATCHED}/"
        self._seen: dict[str, tuple[str, float]] = {}
        self._done: dict[str, str] = {}
        self._said: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="watching")

    def start(self) -> Watching:
        """What is there already is no news: it was put back, or came with the program."""
        with suppress(OSError):
            self._done = {match.name: match.signature for match in self._find()}
        self._thread.start()
        return self

    def finish(self) -> str:
        """Copy what the program saved last; '' or why something is not in S3. Call it when nobody
        writes here any more.
        """
        self._over.set()
        self._thread.join()
        try:
            return self._look(ended=True)
        except Exception as error:  # noqa: BLE001 - what else the run made is still to be kept
            return str(error) or type(error).__name__

    def _run(self) -> None:
        pause = _LOOK_SECONDS
        while not self._over.wait(pause):
            began = time.monotonic()
            try:
                problem = self._look(ended=False)
            except Exception as error:  # noqa: BLE001 - without this thread nothing is kept
                problem = str(error) or type(error).__name__
            if problem and problem not in self._said:
                print(f"trainyard: checkpoint.watch: {problem}", flush=True)
                self._said.add(problem)
            pause = max(_LOOK_SECONDS, (time.monotonic() - began) / _SHARE)

    def _find(self) -> list[Match]:
        return find(self._where.run_dir, self._order.patterns)

    # -- which ------------------------------------------------------------------------------------
    def _look(self, *, ended: bool) -> str:
        """The newest of each series that is complete and not in S3. Raises OSError."""
        problem, newest = "", {match.series: match for match in self._find()}
        for match in newest.values():
            if self._done.get(match.name) == match.signature:
                continue
            try:
                if self._complete(match, ended):
                    self._take(match)
            except (Torn, Unsteady) as error:
                if ended:
                    self._reject(match, str(error))
            except StoreFailed as error:
                problem = f"{match.name} cannot be brought to S3: {error}"
        return problem

    def _complete(self, match: Match, ended: bool) -> bool:
        """Whether the program seems to be done with it. Raises Torn, OSError."""
        now = time.monotonic()
        signature, since = self._seen.get(match.name, ("", now))
        if signature != match.signature:
            since = now
            self._seen[match.name] = match.signature, now
        if self._order.complete == "rename":
            return True
        if self._order.complete == "marker-file":
            return self._marked(match)
        if ended or now - since >= self._order.stable_seconds:
            return True
        return self._order.complete == "auto" and proven(self._where.run_dir, match)

    def _marked(self, match: Match) -> bool:
        """Whether the file is there that says so, and is no older one's."""
        path = self._where.run_dir / match.name
        beside = (path if match.directory else path.parent) / self._order.marker.replace(
            "{name}", path.name
        )
        others = [at for name, _, at in match.files if self._where.run_dir / name != beside]
        try:
            return beside.stat().st_mtime_ns >= max(others, default=0)
        except FileNotFoundError:
            return False

    # -- a copy -----------------------------------------------------------------------------------
    def _take(self, match: Match) -> None:
        """Raises Torn, Unsteady, StoreFailed, OSError."""
        held = self._where.attempt_dir / _HELD
        shutil.rmtree(held, ignore_errors=True)
        try:
            files = [self._copy(name, held) for name, _, _ in match.files]
            now = look(self._where.run_dir, self._where.run_dir / match.name)
            if now is None or now.signature != match.signature:
                raise Unsteady(f"{match.name} changed while it was copied")
            if not proven(held, match):
                self._read_again(match, files)
            self._publish(match, held, files)
        finally:
            shutil.rmtree(held, ignore_errors=True)
        self._done[match.name] = match.signature

    def _copy(self, name: str, held: Path) -> dict[str, Any]:
        target = held / name
        target.parent.mkdir(parents=True, exist_ok=True)
        hashed, size = hashlib.sha256(), 0
        try:
            with open(self._where.run_dir / name, "rb") as source, open(target, "wb") as copy:
                while block := source.read(_BLOCK):
                    hashed.update(block)
                    size += len(block)
                    copy.write(block)
        except FileNotFoundError:
            raise Unsteady(f"{name} was removed while it was copied") from None
        return {"path": name, "bytes": size, "sha256": hashed.hexdigest()}

    def _read_again(self, match: Match, files: list[dict[str, Any]]) -> None:
        """A format that proves nothing may hold one half of two saves."""
        for entry in files:
            if file_sha256(self._where.run_dir / entry["path"]) != entry["sha256"]:
                raise Unsteady(f"{match.name} changed while it was copied")

    def _publish(self, match: Match, held: Path, files: list[dict[str, Any]]) -> None:
        at = f"{self._at}{match.series}/"
        saves = saves_below(self._store.sizes(at), at)
        number = max((place(name)[0] for name in saves), default=0) + 1
        known = step_in(match.name)
        known = self._step() if known is None else known
        step = number if known is None else known
        name = f"save-{number:012d}-step-{step:012d}-attempt-{self._where.attempt}"
        for entry in files:
            self._store.send(
                held / entry["path"], f"{at}{name}/{entry['path']}", str(entry["sha256"])
            )
        body = json.dumps(self._manifest(match, files, step, counted=known is None))
        self._store.write(f"{at}{name}/{places.CHECKPOINT_MANIFEST}", body.encode())
        self._report(
            "CheckpointCommitted",
            step=step,
            path=f"{places.WATCHED}/{match.series}/{name}",
            bytes=sum(int(entry["bytes"]) for entry in files),
            files=len(files),
            committedAt=moment(datetime.now(timezone.utc)),
            source=match.name,
            counted=known is None,
        )
        self._prune(at, match.series, [*saves, name])

    def _manifest(
        self, match: Match, files: list[dict[str, Any]], step: int, *, counted: bool
    ) -> dict[str, Any]:
        source = {
            "path": match.name,
            "signature": match.signature,
            "modifiedNs": match.modified_ns,
            "directory": match.directory,
            "counted": counted,
        }
        return {
            "schema": "trainyard.checkpoint.v1",
            "runId": self._where.run_id,
            "attempt": self._where.attempt,
            "step": step,
            "worldSize": max(1, self._order.ranks),
            "createdAt": moment(datetime.now(timezone.utc)),
            "files": files,
            "watched": source,
        }

    def _prune(self, at: str, series: str, saves: list[str]) -> None:
        """The newest stay; a manifest goes first. A failure is tried again after the next copy."""
        try:
            self._delete_older(at, series, saves)
        except StoreFailed as error:
            print(f"trainyard: older copies cannot be deleted: {error}", flush=True)

    def _delete_older(self, at: str, series: str, saves: list[str]) -> None:
        for name in sorted(saves, key=place)[: -self._order.keep]:
            keys = self._store.sizes(f"{at}{name}/")
            self._store.delete(f"{at}{name}/{places.CHECKPOINT_MANIFEST}")
            for key in keys:
                self._store.delete(key)
            _, step, attempt = place(name)
            path = f"{places.WATCHED}/{series}/{name}"
            self._report("CheckpointPruned", step=step, attempt=attempt, path=path)

    def _reject(self, match: Match, reason: str) -> None:
        step = step_in(match.name) or self._step() or 0
        self._report("CheckpointRejected", step=step, path=match.name, reason=reason)


def place(name: str) -> tuple[int, int, int]:
    """Number, step and attempt of a copy; (-1, -1, -1) of another name."""
    found = places.SAVE_NAME.match(name)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (-1, -1, -1)


def saves_below(sizes: Mapping[str, int], at: str) -> list[str]:
    """The copies of a series that have a manifest, oldest first."""
    ends = f"/{places.CHECKPOINT_MANIFEST}"
    names = {key.removeprefix(at).split("/")[0] for key in sizes if key.endswith(ends)}
    whole = [name for name in names if f"{at}{name}{ends}" in sizes and place(name)[0] > 0]
    return sorted(whole, key=place)
