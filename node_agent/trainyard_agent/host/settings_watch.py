"""Puts our settings back into slurm.conf when another program rewrote it without them.

HyperPod may do so whenever nodes come or go. If our own file is missing, it is written again: a
slurmctld does not start while slurm.conf includes a file that is not there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from trainyard_agent.host import slurm_settings
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_contracts.agent_config import AgentConfig

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0


class SettingsWatch:
    """Looks at slurm.conf and our file after a change, once two looks in a row see them the same.

    Then nobody is in the middle of writing them.
    """

    def __init__(
        self, config: AgentConfig, slurm: Slurm, known: Callable[[], Mapping[str, SlurmNode]]
    ) -> None:
        """`known`: the nodes as somebody else last asked Slurm for them."""
        self._config, self._slurm, self._known = config, slurm, known
        self._seen: tuple[int, ...] = ()
        self._judged: tuple[int, ...] = ()
        # An agent that died may have written them without a word to Slurm.
        self._told = False
        self._told_at = 0.0
        self._unheard: frozenset[str] = frozenset()
        self._before: Mapping[str, SlurmNode] = {}

    async def watch(self) -> None:
        if not self._config.slurm_conf or not self._config.job_end_hook:
            return
        while True:
            try:
                await self.look(Path(self._config.slurm_conf))
            except FileNotFoundError:
                pass  # HyperPod has not written it yet, or is about to rename another to its place
            except OSError as error:
                log.warning(
                    "slurm.conf cannot be read or extended: %s; "
                    "jobs come back more slowly without our settings",
                    error,
                )
            except SlurmError as error:
                log.warning("Slurm was not told of its settings, which is tried again: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, conf: Path) -> None:
        """Raises OSError, SlurmError."""
        now = _state(conf)
        settled, self._seen = now == self._seen, now
        if (
            settled
            and now != self._judged
            and slurm_settings.complete(slurm_settings.text_of(conf))
        ):
            if slurm_settings.keep(conf, self._config.expected_workers, self._config.job_end_hook):
                log.warning(
                    "%s, or our file beside it, was rewritten without our settings: "
                    "they are in force again",
                    conf,
                )
                self._told = False
            self._judged = self._seen = _state(conf)
        if not self._judged:
            return
        if not self._told or self._came_back():
            self._told = False
            await self._slurm.reconfigure()
            self._told_at = time.time()
            nodes, self._before = await self._slurm.nodes(), self._known()
            self._unheard = frozenset(name for name, node in nodes.items() if not node.registered)
            self._told = True

    def _came_back(self) -> bool:
        """Whether a slurmd is there that had started, but not registered, when Slurm read ours.

        It may have read the older settings right before, and would keep them for as long as it is
        up. Jobs end seconds later there. One that started afterwards has ours. It is left alone,
        since a slurmd of 22.05 may crash if it reads its settings anew while it starts a job.
        """
        now = self._known()
        if now is self._before:
            return False
        return any(name in now and self._missed(now[name]) for name in self._unheard)

    def _missed(self, node: SlurmNode) -> bool:
        started = node.slurmd_started
        return node.registered and (started is None or started <= self._told_at)


def _state(path: Path) -> tuple[int, ...]:
    """What changes with every rewriting of slurm.conf or of our file beside it.

    In place or by a rename. Raises OSError without slurm.conf.
    """
    found = [path.stat()]
    with contextlib.suppress(FileNotFoundError):
        found.append(path.with_name(slurm_settings.NAME).stat())
    return tuple(number for one in found for number in (one.st_ino, one.st_size, one.st_mtime_ns))
