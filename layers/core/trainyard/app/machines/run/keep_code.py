"""Copy the run's uploads, or what its controller fetched with git, to the run's own objects.

There each attempt finds the very same bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

from pydantic import ValidationError

from trainyard.app.runs.kept_trees import kept_code
from trainyard.domain.errors import BlobNotFound, RetryableError
from trainyard.domain.problems import problem
from trainyard.domain.records import Code, Run, TimelineEntry
from trainyard.domain.runs import stopped
from trainyard.domain.words import counted, size
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.files import KeptCode
from trainyard_contracts.trees import Tree

_AT_ONCE = 16
#: A step copies for so long, well within its function's own time; the next one goes on.
COPY_SECONDS = 75.0


class Expired(Exception):
    """An object of the upload is nowhere any more."""


def keep_code(ports: Ports, run: Run) -> Run:
    """Copy what is missing, once. A run whose upload has expired ends with that problem.

    Raises RetryableError while there is more to copy.
    """
    if run.outcome is not None:
        return run
    if run.code is not None and not run.code.kept:
        try:
            copy_code(ports, run, run.code, _field(run.code))
        except Expired as gone:
            return _end(ports, run, _field(run.code), gone)
        entry = _kept(ports, "code-kept", "CodeKept", _field(run.code), run.code)
        run = ports.runs.put(run.changed(code=run.code.changed(kept=True)), [entry])
    for name, data in run.data.items():
        if data.kept:
            continue
        try:
            copy_code(ports, run, data, f"'{name}'")
        except Expired as gone:
            return _end(ports, run, f"inputs: '{name}'", gone)
        entry = _kept(ports, f"data-kept-{name}", "DataKept", f"'{name}'", data)
        run = ports.runs.put(run.changed(data={**run.data, name: data.changed(kept=True)}), [entry])
    return run


def forget_copies(run: Run) -> Run:
    """The same run before anything was copied: every object is looked at once more."""
    return run.changed(
        code=run.code.changed(kept=False) if run.code else None,
        data={name: data.changed(kept=False) for name, data in run.data.items()},
    )


def _kept(ports: Ports, key: str, kind: str, what: str, code: Code) -> TimelineEntry:
    return TimelineEntry(
        id=f"status-{key}",
        at=ports.clock.now(),
        kind="status",
        type=kind,
        message=(
            f"The run keeps its own copy of {what}: {counted(code.files, 'file')}, "
            f"{size(code.bytes)}."
        ),
    )


def copy_code(ports: Ports, run: Run, code: Code, what: str) -> None:
    """Each object that is not there as it should be, from the upload or another run's copy.

    Raises Expired, RetryableError.
    """
    kept, prefix = kept_code(ports, code.tree), places.code_prefix(run.prefix)
    others = [kept.prefix] if kept is not None and kept.prefix != prefix else []
    sources = [places.fetched_prefix(run.prefix) if code.commit else places.UPLOADS, *others]
    copy = partial(_copy, ports, prefix, sources)
    copy(code.tree)
    packs = _packs(ports, f"{prefix}/{code.tree}")
    until = monotonic() + COPY_SECONDS
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = list(pool.map(lambda pack: monotonic() < until and copy(pack), packs))
    if not all(done):
        raise RetryableError(f"{sum(done)} of {len(packs)} packs of {what} are copied")
    found = KeptCode(prefix=prefix, files=code.files, bytes=code.bytes)
    body = found.model_dump_json(by_alias=True).encode()
    ports.blobs.put(places.kept_code_key(code.tree), body)


def _field(code: Code) -> str:
    return "job.git" if code.commit else "job.workdir"


def _copy(ports: Ports, prefix: str, sources: Sequence[str], sha256: str) -> bool:
    key, expected = f"{prefix}/{sha256}", b64encode(bytes.fromhex(sha256)).decode()
    for source in ["", *sources]:
        if source and not ports.uploads.copy(f"{source}/{sha256}", key):
            continue
        head = ports.blobs.head(key)
        if head is not None and head[1] == expected:
            return True
    raise Expired(sha256)


def _packs(ports: Ports, key: str) -> list[str]:
    try:
        return [pack.sha256 for pack in Tree.model_validate_json(ports.blobs.get(key)).packs]
    except (BlobNotFound, ValidationError):
        raise Expired(key) from None


def _end(ports: Ports, run: Run, field: str, gone: Expired) -> Run:
    git = field == "job.git"
    what = "what was fetched is gone" if git else "the upload has expired"
    reason = f"{field}: {what}: {gone} of it is not there any more."
    found = problem("git-refused" if git else "code-expired", reason)
    ended = stopped(run, ports.clock.now(), "failed", reason, found)
    line = TimelineEntry(
        id=f"status-code-expired-{run.life}",
        at=ports.clock.now(),
        kind="status",
        type="Stopped",
        message=reason,
    )
    return ports.runs.put(ended, [line])
