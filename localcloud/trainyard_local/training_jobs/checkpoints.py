"""Checkpoints between a host's directory and S3: copied there all the time, and back at the start.

Each file is copied by itself, as it is at that moment, in no order that anybody may rely on. So a
checkpoint of several files may be in S3 in part, and a file may be there half written.
"""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard_local.training_jobs import tree, words
from trainyard_local.training_jobs.host import Host
from trainyard_local.training_jobs.inputs import InputFailed, relative
from trainyard_local.training_jobs.objects import Location, Objects, Refused
from trainyard_local.training_jobs.objects import words as said
from trainyard_local.training_jobs.requests import CHECKPOINTS

log = logging.getLogger(__name__)


class Checkpoints:
    """Those of one attempt, of all its hosts; they share one place in S3."""

    def __init__(
        self,
        config: Mapping[str, Any],
        objects: Objects,
        hosts: Sequence[Host],
        scratch: Path,
        seconds: float,
    ) -> None:
        self._at = Location.of(config["S3Uri"].rstrip("/") + "/")
        local = config.get("LocalPath") or CHECKPOINTS
        self._directories = [tree.path_of(host.ml, local) for host in hosts]
        self._objects, self._scratch, self._seconds = objects, scratch, seconds
        self._copied: dict[Path, tuple[int, int]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="checkpoints")

    def restore(self) -> None:
        """Everything that is in S3, for every host. Raises InputFailed."""
        try:
            for directory in self._directories:
                directory.mkdir(parents=True, exist_ok=True)
            for key in self._objects.keys(self._at):
                if not key.endswith("/"):
                    self._fetch(key)
        except (*Refused, OSError) as error:
            reason = f"Checkpoint download failed:{said(error)}"
            raise InputFailed(words.client_error(reason)) from error

    def _fetch(self, key: str) -> None:
        for directory in self._directories:
            file = directory / relative(self._at.prefix, key)
            self._objects.get(self._at.bucket, key, file)
            self._copied[file] = _state(file)

    def start(self) -> None:
        """Copy what changes from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Copy no more; what was being copied is finished."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def finish(self) -> None:
        """Copy everything that is not in S3 yet, and then no more."""
        self.stop()
        self.copy()

    def _keep(self) -> None:
        while not self._over.wait(self._seconds):
            self.copy()

    def copy(self) -> None:
        """Every file that changed since it was copied; what does not work is tried next time."""
        for directory in self._directories:
            files = [path for path in directory.rglob("*") if path.is_file()]
            random.shuffle(files)
            for file in files:
                try:
                    self._send(directory, file)
                except (*Refused, OSError) as error:
                    log.warning("checkpoint %s was not copied: %s", file, said(error))

    def _send(self, directory: Path, file: Path) -> None:
        state = _state(file)
        if self._copied.get(file) != state:
            key = self._at.below(file.relative_to(directory).as_posix())
            # Somebody may write to it meanwhile, and S3 gets the size and the checksum first.
            with tempfile.NamedTemporaryFile(dir=self._scratch) as snapshot:
                shutil.copyfile(file, snapshot.name)
                self._objects.put(Path(snapshot.name), self._at.bucket, key)
            self._copied[file] = state


def _state(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_mtime_ns, found.st_size
