"""Brings committed checkpoints to S3 while training goes on: files first, the manifest last. There
is never a manifest over files that are missing or have other bytes, wherever this process dies.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainyard_contracts import places
from trainyard_job.checkpoints import checkpoint

from .events import moment
from .restoring import NotWhole, by_name, files_of, lacking, manifest_of
from .store import Missing, Store, StoreFailed

_AT_ONCE = 8
_LOOK_SECONDS = 0.3
#: In the attempt's directory: second names of a checkpoint's files while they are sent, so that
#: nobody prunes them.
_HELD = ".held"
_AGAIN_SECONDS = 5.0

#: Called with an event's kind and its fields.
Report = Callable[..., None]


class Gone(Exception):
    """It was pruned or replaced here before it could be held."""


class Publisher:
    """Of the first host's directory. `prefix`: of the run, in the bucket; ends with a slash."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        run_dir: Path,
        attempt_dir: Path,
        directory: Path,
        *,
        keep: int,
        report: Report,
    ) -> None:
        self._store, self._prefix, self._run_dir = store, prefix, run_dir
        self._held, self._directory = attempt_dir / _HELD, directory
        self._keep, self._report = max(1, keep), report
        self._at = f"{prefix}{directory.relative_to(run_dir).as_posix()}/"
        self._done: dict[str, str] = {}
        self._said = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="publisher")

    def start(self, restored: str | None = None) -> None:
        """Publish what is committed from now on; `restored` is in S3 already."""
        if restored is not None:
            manifest = self._directory / restored / places.CHECKPOINT_MANIFEST
            self._done[restored] = _sha256(manifest.read_bytes())
        self._thread.start()

    def finish(self) -> str:
        """Publish what is left, and the final model; '' or why something is not in S3.

        Call it when nobody writes here any more.
        """
        self._over.set()
        self._thread.join()
        try:
            while self._look():
                pass
            self._final()
        except (StoreFailed, NotWhole, OSError) as error:
            return str(error)
        return ""

    def _run(self) -> None:
        pause = _LOOK_SECONDS
        while not self._over.wait(pause):
            pause = _LOOK_SECONDS
            try:
                self._look()
            except (StoreFailed, NotWhole, OSError) as error:
                pause = _AGAIN_SECONDS
                self._say(f"checkpoints cannot be brought to S3 just now: {error}")

    def _say(self, text: str) -> None:
        if text != self._said:
            print(f"trainyard: {text}", flush=True)
        self._said = text

    def _look(self) -> bool:
        """Publish the newest checkpoint that is not in S3; False if there is none."""
        for name in self._committed():
            try:
                body = (self._directory / name / places.CHECKPOINT_MANIFEST).read_bytes()
                if self._done.get(name) == _sha256(body):
                    return False  # older ones that were passed over stay so
                self._publish_checkpoint(name, body)
            except (Gone, FileNotFoundError):
                continue
            except NotWhole as foreign:  # of a program that makes such directories in its own way
                self._say(f"{name} is no checkpoint, and not brought to S3: {foreign}")
                continue
            return True
        return False

    def _committed(self) -> list[str]:
        """Newest first."""
        names = os.listdir(self._directory) if self._directory.is_dir() else []
        return sorted(filter(checkpoint.parse_name, names), key=_order, reverse=True)

    def _publish_checkpoint(self, name: str, body: bytes) -> None:
        files, (step, attempt) = files_of(body), _order(name)
        held = self._hold(self._directory / name, files)
        try:
            self._publish(held, f"{self._at}{name}/", body)
        finally:
            shutil.rmtree(held, ignore_errors=True)
        self._done[name] = _sha256(body)
        self._report(
            "CheckpointCommitted",
            step=step,
            attempt=attempt,
            path=(self._directory / name).relative_to(self._run_dir).as_posix(),
            bytes=sum(int(entry["bytes"]) for entry in files),
            files=len(files),
            committedAt=moment(datetime.now(timezone.utc)),
        )
        self._prune()

    def _hold(self, source: Path, files: list[dict[str, Any]]) -> Path:
        """Second names for its files. Raises Gone."""
        held = self._held / source.name
        shutil.rmtree(held, ignore_errors=True)
        try:
            for entry in files:
                path = held / entry["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                os.link(source / entry["path"], path)
        except FileNotFoundError:
            shutil.rmtree(held, ignore_errors=True)
            raise Gone from None
        return held

    def _publish(self, directory: Path, at: str, body: bytes) -> None:
        """A directory by its manifest. Raises StoreFailed; then it is not whole in S3."""
        key, files = f"{at}{places.CHECKPOINT_MANIFEST}", files_of(body)
        with suppress(Missing):
            if self._store.read(key) == body and not lacking(files, self._there(at)):
                return
            self._store.delete(key)  # what it names is about to change
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(
                pool.map(
                    lambda entry: self._store.send(
                        directory / entry["path"], f"{at}{entry['path']}", entry["sha256"]
                    ),
                    files,
                )
            )
        if wrong := lacking(files, self._there(at)):
            raise StoreFailed(f"s3://{self._store.bucket}/{at}: {wrong}, though it was sent")
        self._store.write(key, body)

    def _there(self, at: str) -> dict[str, int]:
        return {key.removeprefix(at): size for key, size in self._store.sizes(at).items()}

    def _final(self) -> None:
        directory, at = self._run_dir / places.FINAL, f"{self._prefix}{places.FINAL}/"
        try:
            body = (directory / places.CHECKPOINT_MANIFEST).read_bytes()
        except FileNotFoundError:
            return
        self._publish(directory, at, body)
        named = {entry["path"] for entry in files_of(body)}
        for name in self._there(at).keys() - named - {places.CHECKPOINT_MANIFEST}:
            self._store.delete(f"{at}{name}")  # of an older final model

    # -- room -------------------------------------------------------------------------------------
    def _prune(self) -> None:
        """Delete all but the newest whole ones and the best one; what is torn stays as evidence.

        A failure is tried again after the next checkpoint.
        """
        try:
            for name in self._surplus(self._store.sizes(self._at)):
                at = f"{self._at}{name}/"
                there = self._store.sizes(at)
                self._store.delete(f"{at}{places.CHECKPOINT_MANIFEST}")
                for key in there:
                    self._store.delete(key)
                path = (self._directory / name).relative_to(self._run_dir).as_posix()
                step, attempt = _order(name)
                self._report("CheckpointPruned", step=step, attempt=attempt, path=path)
        except StoreFailed as error:
            self._say(f"older checkpoints cannot be deleted: {error}")

    def _surplus(self, sizes: Mapping[str, int]) -> list[str]:
        whole = []
        for name, there in by_name(self._at, sizes).items():
            try:
                torn = lacking(manifest_of(self._store, self._at, name)[1], there)
            except NotWhole:
                continue
            if not torn:
                whole.append(name)
        best = self._best()
        return [name for name in whole[self._keep :] if name not in best]

    def _best(self) -> set[str]:
        """Which checkpoints the trainer wants to have kept."""
        try:
            found = json.loads((self._run_dir / places.BEST).read_bytes())["keep"]
            return {str(name) for name in found}
        except (OSError, ValueError, KeyError, TypeError):
            return set()


def _order(name: str) -> tuple[int, int]:
    return checkpoint.parse_name(name) or (-1, -1)


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
