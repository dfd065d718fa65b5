"""Puts the newest whole copy of what a program saved in its own way back, on every host."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard_contracts import places

from .matches import ASIDE, Torn, find, proven, step_in
from .publishing import Report
from .store import Store, file_sha256
from .surroundings import Surroundings
from .watching import saves_below


def put_back(store: Store, where: Surroundings, patterns: Sequence[str], report: Report) -> None:
    """Lay the newest whole copy of each series where the program looks for its own, before the next
    attempt. What lies there in its way, or is newer and does not prove that it is whole, gets
    another name. Raises StoreFailed, OSError.
    """
    top = f"{where.data.prefix}{places.WATCHED}/"
    sizes = store.sizes(top)
    for series in sorted({key.removeprefix(top).split("/")[0] for key in sizes}):
        at = f"{top}{series}/"
        for name in reversed(saves_below(sizes, at)):
            path = f"{places.WATCHED}/{series}/{name}"
            if source := _laid_out(store, where, f"{at}{name}/", path, report):
                _away_with_doubtful(where, patterns, source, series, report)
                break


def _laid_out(store: Store, where: Surroundings, at: str, path: str, report: Report) -> str:
    """Where this copy lies now, as the program knows it; '' if it is not whole."""
    stage = where.run_dir / ".putting-back"
    shutil.rmtree(stage, ignore_errors=True)
    try:
        manifest = json.loads(store.read(f"{at}{places.CHECKPOINT_MANIFEST}"))
        source = str(manifest["watched"]["path"])
        names = [source, *(str(entry["path"]) for entry in manifest["files"])]
        for name in names:
            if name.split("/")[0] not in (places.WORK, places.OUTPUT) or ".." in name.split("/"):
                raise ValueError(f"'{name}' leads elsewhere")
        if _is_there(where.run_dir, manifest["files"]):
            return source
        for entry in manifest["files"]:
            if store.fetch(f"{at}{entry['path']}", stage / entry["path"]) != entry["sha256"]:
                raise ValueError(f"{entry['path']} does not have the manifest's sha256")
    except (ValueError, KeyError, TypeError) as error:
        print(f"trainyard: {path} is not whole and is skipped: {error}", flush=True)
        return ""
    aside = _set_aside(where, where.run_dir / source)
    (where.run_dir / source).parent.mkdir(parents=True, exist_ok=True)
    os.rename(stage / source, where.run_dir / source)
    shutil.rmtree(stage, ignore_errors=True)
    reason = "it is not what was copied" if aside else "it is missing"
    told = {"step": manifest["step"], "counted": bool(manifest["watched"].get("counted"))}
    report("CheckpointRestored", source=source, path=path, reason=reason, setAside=aside, **told)
    return source


def _away_with_doubtful(
    where: Surroundings, patterns: Sequence[str], source: str, series: str, report: Report
) -> None:
    """A host was lost before anybody saw it complete, or it is torn: a program would begin with the
    highest number.
    """
    newest = step_in(source)
    for match in find(where.run_dir, patterns):
        step = step_in(match.name)
        if match.series != series or newest is None or step is None or step <= newest:
            continue
        try:
            reason = "" if proven(where.run_dir, match) else "nothing shows that it was complete"
        except Torn as torn:
            reason = str(torn)
        if reason:
            aside = _set_aside(where, where.run_dir / match.name)
            report("CheckpointRestored", source=match.name, reason=reason, setAside=aside)


def _is_there(run_dir: Path, files: list[dict[str, Any]]) -> bool:
    def same(entry: dict[str, Any]) -> bool:
        path = run_dir / entry["path"]
        if not path.is_file() or path.stat().st_size != int(entry["bytes"]):
            return False
        return file_sha256(path) == str(entry["sha256"])

    return all(same(entry) for entry in files)


def _set_aside(where: Surroundings, path: Path) -> str:
    """The program's own gets a name that no program looks for; '' if there is nothing."""
    if not os.path.lexists(path):
        return ""
    aside = path.with_name(f"{ASIDE}{where.attempt - 1}.{path.name}")
    if aside.is_dir():
        shutil.rmtree(aside)
    os.rename(path, aside)
    return aside.relative_to(where.run_dir).as_posix()
