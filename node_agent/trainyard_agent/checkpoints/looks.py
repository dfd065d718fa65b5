"""One run's looks at what its program saves: what is complete is copied, and nothing else is done.

Everything here blocks. It keeps in memory only what makes it patient; what counts is on disk.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trainyard_agent.checkpoints import formats, keeping, kept
from trainyard_agent.checkpoints.keeping import Unsteady
from trainyard_agent.checkpoints.kept import Kept, Save
from trainyard_agent.checkpoints.patterns import Match, find, look, store_name
from trainyard_agent.checkpoints.torn import Torn, nothing
from trainyard_contracts import places
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.watching import WatchSpec

log = logging.getLogger(__name__)

#: A copy that took so long is followed by a pause of so many times that.
REST = 4.0
#: The longest pause after a copy, in seconds.
MOST_REST_SECONDS = 60.0
# The pause after a copy that failed, growing.
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 15.0
#: After so long a person should hear of a checkpoint that never keeps still.
RESTLESS_SECONDS = 900.0
#: So many series of checkpoints are copied; a pattern that fits everything has more.
MOST_SERIES = 16
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: Recipes whose processes the launcher counts; with another one the program starts its own.
_UNCOUNTED = ("command",)


#: The step that was known at a time, in seconds since the epoch; None if none was.
StepAt = Callable[[float], int | None]


class Hurry(Exception):
    """Something waits that matters more than a copy."""


@dataclass
class Tries:
    """How often one match could not be copied, since when, and when it is tried again."""

    count: int = 0
    since: float = 0.0
    due: float = 0.0


@dataclass
class Looked:
    """`warnings`: what a person should hear once, by a short name of each.

    `torn`: what is torn now, and why. `judged`: the same by signatures, None for what is whole.
    `seen`: how much matched.
    """

    warnings: dict[str, str] = field(default_factory=dict)
    torn: dict[Match, str] = field(default_factory=dict)
    judged: dict[str, str | None] = field(default_factory=dict)
    seen: int = 0
    taken: list[Kept] = field(default_factory=list)


def ranks_of(bundle: JobBundle) -> int | None:
    """How many processes the job has; None where the program starts them itself."""
    if bundle.recipe in _UNCOUNTED:
        return None
    return bundle.nodes * bundle.processes_per_node


def trusted(root: Path, spec: WatchSpec, match: Match) -> bool:
    """Whether the program itself says that this is complete, in the way that the spec names."""
    return spec.complete == "rename" or (
        spec.complete == "marker-file" and marked(root, match, spec.marker or "")
    )


def marked(root: Path, match: Match, marker: str) -> bool:
    """Whether the file is there that says so, and is no older one's. Raises OSError."""
    path = root / match.name
    name = marker.replace("{name}", path.name)
    beside = look(root, str(((path if match.directory else path.parent) / name).relative_to(root)))
    return beside is not None and beside.modified_ns >= max(
        (file.modified_ns for file in match.files if Path(file.name).name != name), default=0
    )


class Looks:
    """What is known of one run from look to look."""

    def __init__(self, root: Path, pause: Callable[[], None] = nothing) -> None:
        self._root, self._pause = root, pause
        self._seen: dict[str, tuple[str, float]] = {}
        self._tries: dict[str, Tries] = {}

    def look(self, bundle: JobBundle, attempt: int, step: StepAt) -> Looked:
        """Copy what is complete by now. Raises OSError where that cannot be seen just now."""
        spec, looked = bundle.checkpoint_watch, Looked()
        assert spec is not None
        for match in self._candidates(spec, bundle.checkpoint_keep, looked):
            tries = self._tries.setdefault(match.name, Tries(since=time.monotonic()))
            try:
                complete = self._complete(match, spec)
            except OSError as error:
                self._again(match, tries, error, looked)
                continue
            now = time.monotonic()
            if complete and tries.due <= now:
                self._try(match, bundle, attempt, step, looked)
            elif not complete and now - tries.since >= RESTLESS_SECONDS:
                _warn_of_restless(match, "nothing says that it is complete", looked)
        return looked

    def last_look(self, bundle: JobBundle, attempt: int, step: StepAt, *, well: bool) -> Looked:
        """The same once nobody writes any more. `well`: the attempt ended as it should."""
        spec, looked = bundle.checkpoint_watch, Looked()
        assert spec is not None
        for match in self._candidates(spec, bundle.checkpoint_keep, looked):
            names = [file.name for file in match.files]
            try:
                proven = formats.prove(self._root, names, ranks=ranks_of(bundle), pause=self._pause)
                proven = proven and not self._is_mixed(match)
                if proven:
                    looked.judged[match.signature] = None
                if proven or well or trusted(self._root, spec, match):
                    self._try(match, bundle, attempt, step, looked)
            except Torn as error:
                looked.torn[match] = looked.judged[match.signature] = str(error)
            except OSError as error:
                log.warning("%s cannot be read just now: %s", match.name, error)
        return looked

    def _candidates(self, spec: WatchSpec, keep: int, looked: Looked) -> list[Match]:
        """What matches and is not copied yet, oldest first; of each series the newest `keep`."""
        found = find(self._root, spec.patterns)
        looked.seen = len(found.matches)
        series: dict[str, list[Match]] = {}
        for match in found.matches:
            series.setdefault(match.series, []).append(match)
        recent = sorted(series, key=lambda name: series[name][-1].modified_ns)[-MOST_SERIES:]
        if found.cut or len(recent) < len(series):
            said = found.cut or f"{len(series)} kinds of names match, {MOST_SERIES} are copied"
            looked.warnings["too-much"] = (
                f"checkpoint.watch fits more than checkpoints: {said}. Give narrower patterns."
            )
        new: list[Match] = []
        for name in recent:
            newest = kept.newest(self._root / places.WATCHED / store_name(name))
            new += [match for match in series[name] if _is_new(match, newest)][-keep:]
        gone = {*self._seen} - {match.name for match in found.matches}
        for name in gone:
            self._seen.pop(name)
            self._tries.pop(name, None)
        return sorted(new, key=lambda match: match.modified_ns)

    def _complete(self, match: Match, spec: WatchSpec) -> bool:
        """Whether the program seems to be done with it. Raises OSError."""
        now = time.monotonic()
        signature, since = self._seen.get(match.name, ("", now))
        if signature != match.signature:
            since = now
            self._seen[match.name] = match.signature, now
        if spec.complete in ("rename", "marker-file"):
            return trusted(self._root, spec, match)
        if now - since >= spec.stable_seconds:
            return True
        if spec.complete != "auto" or self._is_mixed(match):
            return False
        return formats.glance(self._root, [file.name for file in match.files]) == "provable"

    def _is_mixed(self, match: Match) -> bool:
        store = self._root / places.WATCHED / store_name(match.series)
        return match.directory and kept.is_mixed(kept.newest(store), match)

    def _try(
        self,
        match: Match,
        bundle: JobBundle,
        attempt: int,
        step: StepAt,
        looked: Looked,
    ) -> None:
        """Copy it, or note why that must wait."""
        spec, began = bundle.checkpoint_watch, time.monotonic()
        assert spec is not None
        known = match.step if match.step is not None else step(match.modified_ns / 1e9)
        save = Save(
            run_id=bundle.run_id,
            attempt=attempt,
            step=known or 0,
            counted=known is None,
            ranks=ranks_of(bundle) or 0,
            links=spec.complete == "rename",
            pause=self._pause,
        )
        store = self._root / places.WATCHED / store_name(match.series)
        tries = self._tries.setdefault(match.name, Tries(since=began))
        try:
            if not self._make_room(store, match, spec):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            looked.taken.append(keeping.take(self._root, match, save))
            took = time.monotonic() - began
            due = time.monotonic() + min(MOST_REST_SECONDS, REST * took)
            self._tries[match.name] = Tries(0, time.monotonic(), due)
        except (Torn, Unsteady, OSError) as error:
            self._again(match, tries, error, looked)

    def _again(self, match: Match, tries: Tries, error: Exception, looked: Looked) -> None:
        log.info("%s is not copied yet: %s", match.name, error)
        now = time.monotonic()
        if not tries.count:
            tries.since = now
        pause = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2**tries.count)
        full = isinstance(error, OSError) and error.errno in _FULL
        tries.count, tries.due = (
            min(tries.count + 1, 16),
            now + (MOST_REST_SECONDS if full else pause),
        )
        if full:
            looked.warnings["no-room"] = (
                f"There is no room for a safe copy of '{match.name}' ({match.size} bytes) beside "
                "the program's next save. Let the program keep fewer, or give the shared "
                "filesystem more room."
            )
        elif now - tries.since >= RESTLESS_SECONDS:
            _warn_of_restless(match, str(error), looked)

    def _make_room(self, store: Path, match: Match, spec: WatchSpec) -> bool:
        """Whether there is room; older copies of the series make room, the newest never does."""
        older = kept.copies(store)
        if spec.complete == "rename" or (older and older[0].source.linked):
            return True
        for copy in reversed(older[1:]):
            if keeping.room_for(self._root, match.size):
                return True
            discard(copy.path)
        return keeping.room_for(self._root, match.size)


def _warn_of_restless(match: Match, why: str, looked: Looked) -> None:
    looked.warnings[f"restless-{match.name}"] = (
        f"'{match.name}' could not be copied for {RESTLESS_SECONDS / 60:.0f} minutes ({why}): "
        "there is no safe copy of what it holds now. Let the program write to another name and "
        "rename, and give checkpoint.watch 'complete: rename'."
    )


def discard(path: Path) -> None:
    """Remove a copy; it is renamed first, so that no reader finds half of it."""
    aside = path.with_name(f".tmp-old-{path.name}")
    os.rename(path, aside)
    shutil.rmtree(aside, ignore_errors=True)


def _is_new(match: Match, newest: Kept | None) -> bool:
    """Whether this was saved after the newest copy of its series."""
    if newest is None:
        return True
    if match.name == newest.source.path:
        return match.signature != newest.source.signature
    return match.modified_ns > newest.source.modified_ns
