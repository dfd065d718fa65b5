"""Removes imported images that nobody used for long from the shared filesystem.

An image's time is that of its last use: an attempt sets it when it begins, and the controller's
agent while the attempt lives. So clusters that share a filesystem see each other's uses. An image
is removed under the lock under which it is imported, so an attempt finds it whole or imports it
again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from trainyard_agent.host.background import in_own_thread
from trainyard_agent.jobs import images
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_agent.jobs.image_import import Busy, alone
from trainyard_contracts import images as names
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig

log = logging.getLogger(__name__)

#: An imported image goes when no attempt used it for so long.
UNUSED_SECONDS = 14 * 86400.0
#: Where the filesystem is short of room, the one that was not used for the longest time goes
#: earlier, but not before it was unused for so long.
UNUSED_SECONDS_WHEN_SHORT = 86400.0
#: The filesystem is short of room with less of it free.
SHORT_OF_ROOM = 0.1
LOOK_SECONDS = 3600.0
_IMAGE = re.compile(r"^sha256-[0-9a-f]{64}\.sqsh$")
_WORKPLACE = re.compile(r"^\.(sha256-[0-9a-f]{64})\.import$")


class ImageRoom:
    """The images of the filesystem that this cluster has."""

    def __init__(self, config: AgentConfig, attempts: Attempts) -> None:
        self._config, self._attempts = config, attempts
        self._top = Path(config.shared_root) / "trainyard" / places.IMAGES

    async def watch(self) -> None:
        while True:
            used = self.used()
            try:
                await in_own_thread(lambda used=used: self.look(used))  # type: ignore[misc]
            except OSError as error:
                log.warning("images that nobody uses cannot be removed now: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    def used(self) -> set[Path] | None:
        """The images of attempts that run or will; None where one cannot be told."""
        found = set()
        for attempt in self._attempts.known.values():
            if attempt.state == "ended":
                continue
            bundle = bundle_of(attempt)
            if bundle is None:
                return None
            if bundle.image is not None and not names.is_file(bundle.image.name):
                found.add(images.imported(self._config, bundle.image))
        return found

    def look(self, used: Collection[Path] | None) -> None:
        """Mark what is used, then remove what is not (blocks). Raises OSError."""
        if used is None:
            return
        for path in used:
            _touch(path)
        try:
            there = os.listdir(self._top)
        except FileNotFoundError:
            return
        for name in there:
            if dead := _WORKPLACE.match(name):
                self._clear(self._top / f"{dead.group(1)}.sqsh")
        found = sorted(
            (at, path)
            for path in (self._top / name for name in there if _IMAGE.match(name))
            if path not in used and (at := _used_at(path)) is not None
        )
        self._remove(path for at, path in found if time.time() - at > UNUSED_SECONDS)
        for at, path in found:
            if not self._is_short():
                break
            if time.time() - at > UNUSED_SECONDS_WHEN_SHORT:
                self._remove([path])

    def _is_short(self) -> bool:
        disk = os.statvfs(self._top)
        return disk.f_bavail < SHORT_OF_ROOM * disk.f_blocks

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            try:
                with alone(path, wait=False):
                    at = _used_at(path)
                    # An attempt may have begun since we looked.
                    if at is not None and time.time() - at > UNUSED_SECONDS_WHEN_SHORT:
                        path.unlink()
                        days = (time.time() - at) / 86400
                        log.info("image %s was not used for %.0f days: removed", path.name, days)
            except Busy:
                log.info("image %s is being imported or started, so it stays", path.name)

    def _clear(self, path: Path) -> None:
        """Remove what an import left that was killed: who imports holds the lock."""
        try:
            with alone(path, wait=False):
                shutil.rmtree(path.with_name(f".{path.stem}.import"), ignore_errors=True)
        except Busy:
            pass


def _used_at(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return None


def _touch(path: Path) -> None:
    try:
        os.utime(path, follow_symlinks=False)
    except FileNotFoundError:
        pass  # it is not imported yet
