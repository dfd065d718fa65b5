"""Puts the newest whole copy back where a program's own checkpoint is torn or missing.

It runs between two attempts only. What the program wrote is renamed, never removed, and all is
safe to repeat after a kill at any line.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.checkpoints import formats, kept
from trainyard_agent.checkpoints.keeping import copy_open
from trainyard_agent.checkpoints.kept import Kept, is_mixed
from trainyard_agent.checkpoints.patterns import ASIDE, PUTTING, Match, find, look, store_name
from trainyard_agent.checkpoints.torn import Torn, nothing
from trainyard_agent.host.digests import digest
from trainyard_agent.host.job_files import open_inside
from trainyard_contracts import places

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PutBack:
    """What was done about one checkpoint of the program's; `kept` is None if only set aside."""

    source: str
    reason: str
    kept: Kept | None
    set_aside: str = ""


def put_back(
    root: Path,
    patterns: Sequence[str],
    *,
    attempt: int,
    ranks: int | None,
    trusts: Callable[[Match], bool],
    judged: Mapping[str, str | None] | None = None,
) -> list[PutBack]:
    """Leave nothing torn where the program looks for its newest checkpoint.

    `attempt`: the one that is over. `trusts`: of what its format does not prove, whether it counts
    as whole. `judged`: what is known by signatures: why it is torn, or None if it is whole.
    Raises OSError where something cannot be read just now.
    """
    series: dict[str, list[Match]] = {}
    for match in find(root, patterns).matches:
        series.setdefault(store_name(match.series), []).append(match)
    wanted = {*series, *(Path(store).name for store in kept.stores(root))}
    done: list[PutBack] = []
    for store in sorted(wanted):
        found = kept.copies(root / places.WATCHED / store)
        work = _Series(root, attempt, ranks, trusts, judged or {})
        done += work.mend(found, series.get(store, []))
    return done


class _Series:
    """One series of the program's checkpoints."""

    def __init__(
        self,
        root: Path,
        attempt: int,
        ranks: int | None,
        trusts: Callable[[Match], bool],
        judged: Mapping[str, str | None],
    ) -> None:
        self._root, self._attempt, self._ranks = root, attempt, ranks
        self._trusts, self._judged = trusts, judged

    def mend(self, copies: Sequence[Kept], matches: Sequence[Match]) -> list[PutBack]:
        """`copies` newest first, `matches` oldest first."""
        copies = [copy for copy in copies if not _behind_a_link(self._root, copy)]
        newest, done = next(iter(copies), None), []
        torn: dict[str, str] = {}
        for match in reversed(matches):
            if newest is not None and _is_copied(newest, match):
                break
            if newest is not None and _is_older(newest, match):
                continue
            reason = self._fault(match, newest)
            if reason is None:
                newest = None  # the program's own newest is whole: nothing is put back
                break
            torn[match.name] = reason
        own = look(self._root, newest.source.path) if newest is not None else None
        for name, reason in torn.items():
            if newest is None or name != newest.source.path:
                done.append(PutBack(name, reason, None, self._set_aside(name)))
        if newest is None or (own is not None and own.signature == newest.source.signature):
            return done
        back = self._restore(copies, torn.get(newest.source.path, ""))
        return [*done, back] if back is not None else done

    def _fault(self, match: Match, newest: Kept | None) -> str | None:
        """Why this is no checkpoint to start from; None if it is one, as far as can be known."""
        reason = self._torn(match, newest)
        if reason:
            return reason
        if newest is not None and match.modified_ns < newest.source.modified_ns:
            return "it is older than the newest whole one"
        if reason is None or self._trusts(match) or newest is None:
            return None
        return "nothing shows that it was complete when the attempt ended"

    def _torn(self, match: Match, newest: Kept | None) -> str | None:
        """Why it is torn, None if it proves that it is whole; '' if its format says nothing."""
        if match.signature in self._judged:
            return self._judged[match.signature]
        try:
            names = [file.name for file in match.files]
            proven = formats.prove(self._root, names, ranks=self._ranks)
            return None if proven and not is_mixed(newest, match) else ""
        except Torn as error:
            return str(error)

    def _restore(self, copies: Sequence[Kept], reason: str) -> PutBack | None:
        """Put the newest copy back that reads as its manifest says."""
        for copy in copies:
            source = self._root / copy.source.path
            putting = source.with_name(f"{PUTTING}{source.name}")
            try:
                _lay_out(copy, putting)
            except (Torn, FileNotFoundError) as error:
                log.error("the copy %s cannot be put back: %s", copy.path, error)
                continue
            there = os.path.lexists(source)
            aside = self._set_aside(copy.source.path) if there else ""
            os.rename(putting, source)
            why = reason or ("it is not what was copied" if there else "it is missing")
            return PutBack(copy.source.path, why, copy, aside)
        return None

    def _set_aside(self, name: str) -> str:
        """Give the program's own another name, which no program looks for; returns that name."""
        path = self._root / name
        for count in range(1, 1000):
            again = f"-{count}" if count > 1 else ""
            aside = path.with_name(f"{ASIDE}{self._attempt}{again}.{path.name}")
            if not os.path.lexists(aside):
                os.rename(path, aside)
                return str(aside.relative_to(self._root))
        raise FileExistsError(f"{path} cannot be set aside a thousand times")


def lay_out(root: Path, copy: Kept) -> None:
    """Put a copy, of whatever run, where a program looks for its own checkpoint.

    Nothing may be there. Raises Torn, OSError.
    """
    source = root / copy.source.path
    putting = source.with_name(f"{PUTTING}{source.name}")
    _lay_out(copy, putting)
    os.rename(putting, source)


def _lay_out(copy: Kept, putting: Path) -> None:
    """Copy the copy beside the program's own, and read it back. Raises Torn, OSError."""
    if putting.is_dir() and not putting.is_symlink():
        shutil.rmtree(putting)
    else:
        putting.unlink(missing_ok=True)
    putting.parent.mkdir(parents=True, exist_ok=True)
    for file in copy.manifest.files:
        inner = os.path.relpath(file.path, copy.source.path)
        target = putting / inner if copy.source.directory else putting
        if ".." in Path(inner).parts:
            raise Torn(f"{file.path} does not lie in {copy.source.path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_inside(copy.path, copy.path / file.path) as stream:
            copy_open(stream, target, nothing)
        found = digest(target)
        if (found.size, found.sha256) != (file.bytes, file.sha256):
            raise Torn(f"{file.path} does not have the hash that the manifest says")


def _behind_a_link(root: Path, copy: Kept) -> bool:
    """Whether the program has a link on the way to it by now: what lies there is not ours."""
    above = [*Path(copy.source.path).parents][:-1]
    return any((root / parent).is_symlink() for parent in above)


def _is_copied(newest: Kept, match: Match) -> bool:
    return newest.source.path == match.name and newest.source.signature == match.signature


def _is_older(newest: Kept, match: Match) -> bool:
    """Whether the copy is of a later save than this, which is then of no more interest."""
    if newest.source.path == match.name:
        return False
    return match.modified_ns <= newest.source.modified_ns
