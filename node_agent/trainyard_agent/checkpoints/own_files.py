"""Finds the files that a program wrote beside Trainyard's checkpoints.

They are in its output directory, in its working directory, and elsewhere in the run's directory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainyard_agent.host.job_files import may_pass, read_small
from trainyard_agent.jobs import work
from trainyard_agent.jobs.work import Brought
from trainyard_contracts import places
from trainyard_contracts.export_manifest import KeptLink
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import leads_inside

# In a run's directory; all else there is a program's.
OURS = (
    places.OUTPUT, places.ATTEMPTS, places.FINAL, places.FENCE, places.FENCE_LOCK, places.WORK,
    places.TREE, places.WATCHED, places.INPUTS, places.SYNC_HELD,
)  # fmt: skip
#: An export takes so many files of a run's output. Every object is read, hashed, and looked at from
#: the control plane: more belong into archives.
OUTPUT_FILES = 20_000
#: An export takes so many files of the run's working directory and of what lies beside it. They may
#: be anything, also what nobody wants to keep.
WORKING_FILES = 10_000
#: The files that an export takes of them have so much together.
WORKING_BYTES = 20 * 1024**3
#: An export, and a sync, list so many symbolic links of the output, and of all other directories.
LINKS = 10_000
#: What an attempt reported goes along up to so much a file; of a larger one the curves are kept.
CURVES_BYTES = 2 * 1024**3
_BUNDLE_BYTES = 16 * 1024 * 1024
#: S3's limit of a key is 1024 bytes with the export's prefix.
_KEY_BYTES = 800


@dataclass(frozen=True)
class OwnFile:
    """A regular file of the program's; `key` is relative to the export's prefix."""

    key: str
    path: Path
    size: int
    modified_ns: int = 0
    mode: int = 0o644


@dataclass(frozen=True)
class Submission:
    """What the submission brought, by the names in the working directory."""

    files: Mapping[str, Brought] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Found:
    """Files to export, links to list, and how much was left out."""

    files: list[OwnFile] = field(default_factory=list)
    links: list[KeptLink] = field(default_factory=list)
    left_out: int = 0
    left_out_bytes: int = 0
    bytes: int = 0

    def leave(self, size: int = 0) -> None:
        self.left_out += 1
        self.left_out_bytes += size


def output(root: Path) -> Found:
    """What the program put into its output directory, which is the same for every attempt.

    Raises OSError, as `working` does, where something cannot be seen just now.
    """
    found = Found()
    for file in _walk(root / places.OUTPUT, places.OUTPUT, found):
        if len(found.files) < OUTPUT_FILES:
            found.files.append(file)
        else:
            found.leave(file.size)
    return found


def curves(root: Path, most: int = CURVES_BYTES) -> list[OwnFile]:
    """What each attempt reported, newest attempt first, in files of at most so many bytes.

    These count as nobody's results.

    Raises OSError where something cannot be seen just now.
    """
    found = []
    for attempt in _attempts(root, Found()):
        for name in (places.STEPS, places.METRICS, places.KEPT_CURVES):
            path = attempt / name
            try:
                about = path.lstat()
            except OSError as error:
                _not_seen(error, Found())
                continue
            if stat.S_ISREG(about.st_mode) and about.st_size <= most:
                key = places.curves_name(attempt.name, name)
                found.append(OwnFile(key, path, about.st_size, about.st_mtime_ns))
    return found


#: Whether a file is as the submission brought it.
AsBrought = Callable[[Path, OwnFile, Brought], bool]


def as_brought(top: Path, file: OwnFile, known: Brought) -> bool:
    """Read it and compare the hashes."""
    return known.bytes == file.size and work.is_as_brought(top, file.path, known)


def brought(root: Path) -> Submission:
    """What the run's submission brought."""
    return _brought(root, _attempts(root, Found()))


def working(
    root: Path,
    checkpoint_directory: str,
    *,
    same: AsBrought = as_brought,
    brought: Submission | None = None,
) -> Found:
    """What the program left in its working directory, then in the run's directory beside it, then
    in the working directories that attempts of an older version had, newest attempt first.

    What the submission brought is left out where it is as it came. So are checkpoints, which are
    verified and exported as such. `same` and `brought`: for who knows that from an earlier look.
    """
    found = Found()
    ours = {root / name for name in OURS}
    attempts = _attempts(root, found)
    known = _brought(root, attempts) if brought is None else brought
    _take(_made(work.work_dir(root), "working", found, known, same), found)
    _take(
        _walk(
            root,
            "run",
            found,
            skip=lambda path: (
                path in ours
                or path.name.startswith(work.UNPACKING)
                or _checkpoint_of_ours(path, root / checkpoint_directory)
            ),
        ),
        found,
    )
    for attempt in attempts:
        former, prefix = attempt / places.FORMER_FILES, f"{places.ATTEMPTS}/{attempt.name}"
        if former.is_dir():
            known = _brought(root, [attempt])
            _take(_made(former, f"{prefix}/{places.FORMER_FILES}", found, known, same), found)
    return found


def _made(
    top: Path, prefix: str, found: Found, brought: Submission, same: AsBrought
) -> Iterator[OwnFile]:
    """Files below `top` but those that are as the submission brought them."""
    for file in _walk(top, prefix, found, links=brought.links):
        known = brought.files.get(str(file.path.relative_to(top)))
        if known is None or not same(top, file, known):
            yield file


def _take(files: Iterable[OwnFile], found: Found) -> None:
    for file in files:
        if len(found.files) < WORKING_FILES and found.bytes + file.size <= WORKING_BYTES:
            found.files.append(file)
            found.bytes += file.size
        else:
            found.leave(file.size)


def _checkpoint_of_ours(path: Path, checkpoints: Path) -> bool:
    """Whether this is a checkpoint, committed or (hidden) being written or removed.

    A program may keep other files beside the checkpoints.
    """
    return path.parent in (checkpoints, checkpoints.parent) and (
        path.name.startswith(".") or bool(places.CHECKPOINT_NAME.match(path.name))
    )


def _attempts(root: Path, found: Found) -> list[Path]:
    try:
        names = [name for name in os.listdir(root / places.ATTEMPTS) if name.isdecimal()]
    except OSError as error:
        _not_seen(error, found)
        return []
    return [root / places.ATTEMPTS / name for name in sorted(names, key=int, reverse=True)]


def _not_seen(error: OSError, found: Found) -> None:
    """Pass over files that were removed; count those that we may not read as left out.

    Raises errors that may pass.
    """
    if isinstance(error, PermissionError):
        found.leave()
    elif may_pass(error):
        raise error


def _brought(root: Path, attempts: Sequence[Path]) -> Submission:
    """What the submission brought, as the first bundle says that can be read."""
    for attempt in attempts:
        try:
            body = read_small(attempt, attempt / places.BUNDLE, _BUNDLE_BYTES)
            bundle = JobBundle.model_validate_json(body)
            return Submission(work.brought(root, bundle), work.brought_links(root, bundle))
        except (OSError, ValueError):
            continue
    return Submission()


def _walk(
    top: Path,
    prefix: str,
    found: Found,
    *,
    skip: Callable[[Path], bool] = lambda _: False,
    links: Mapping[str, str] | None = None,
) -> Iterator[OwnFile]:
    """Regular files below `top`, in order of their names.

    No link is followed. It is listed, unless it is one of `links`, which are known.
    """
    if top.is_symlink():
        found.leave()
        return
    for directory, directories, names in os.walk(
        top, onerror=lambda error: _not_seen(error, found)
    ):
        here = Path(directory)
        directories[:] = sorted(
            name for name in directories if name != "__pycache__" and not skip(here / name)
        )
        for name in [*directories, *sorted(names)]:
            path = here / name
            if skip(path):
                continue
            try:
                about = path.lstat()
            except OSError as error:
                _not_seen(error, found)
                continue
            if stat.S_ISLNK(about.st_mode):
                leads = _leads(path)
                if leads and (links or {}).get(str(path.relative_to(top))) != leads:
                    _list(path, leads, top, prefix, found)
            elif stat.S_ISREG(about.st_mode):
                key = _key(prefix, path.relative_to(top))
                if key:
                    yield OwnFile(
                        key, path, about.st_size, about.st_mtime_ns, about.st_mode & 0o777
                    )
                else:
                    found.leave(about.st_size)


def _list(link: Path, leads: str, top: Path, prefix: str, found: Found) -> None:
    """List a link to something below `top`. One that leads elsewhere counts as left out, unless it
    leads nowhere, or to data that were brought for the program: those are never exported.
    """
    name, end = link.relative_to(top), _end(link)
    is_an_input = _is_an_input(link, leads, top)
    if not leads_inside(str(name), leads):
        # By another way, or by an absolute path, which another filesystem need not have.
        inside = end is not None and end.is_relative_to(top.resolve())
        leads = os.path.relpath(end, link.parent.resolve()) if end is not None and inside else ""
    key = _key(prefix, name)
    if key and leads_inside(str(name), leads) and len(found.links) < LINKS:
        found.links.append(KeptLink(key=key, target=leads))
    elif end is not None and not is_an_input:
        found.leave()


def _leads(link: Path) -> str:
    """'' for what is no link any more."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _end(link: Path) -> Path | None:
    """What it leads to at last; None for nothing."""
    try:
        return link.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _is_an_input(link: Path, leads: str, top: Path) -> bool:
    end = os.path.normpath(link.parent / leads)
    return Path(end).is_relative_to(top.parent / places.INPUTS)


def _key(prefix: str, name: Path) -> str:
    """'' for a name that cannot be an object's."""
    key = f"{prefix}/{name}"
    try:
        return key if len(key.encode()) <= _KEY_BYTES and key.isprintable() else ""
    except UnicodeEncodeError:
        return ""
