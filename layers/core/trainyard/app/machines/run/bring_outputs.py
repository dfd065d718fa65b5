"""Makes what other runs exported readable for a run's nodes, before its first attempt.

Nodes reach the runs of their own cluster only: what lies elsewhere is copied within the bucket,
object by object as the verified export names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic

from trainyard.app.machines.run.delays import tell_delay
from trainyard.domain import names
from trainyard.domain.errors import BlobNotFound, RetryableError, RunNotFound
from trainyard.domain.problems import problem
from trainyard.domain.records import Run, TimelineEntry
from trainyard.domain.runs import stopped
from trainyard.domain.words import size
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.files import ExportedObject
from trainyard_contracts.inputs import RunOutputs

#: A step copies for so long, well within its function's own time; the next one goes on.
COPY_SECONDS = 75.0
#: One object is copied within one step.
MOST_BYTES = 50 * 10**9
_AT_ONCE = 16
_PAGE = 500


class _Unreadable(Exception):
    """There is nothing to read; the message names the input and says why."""


class _MoreToCopy(RetryableError):
    """The time of this step is over. The next one goes on with what is not there yet."""


@dataclass(frozen=True)
class _Wanted:
    """One input of the run, and the run that exported it."""

    number: int
    source: str
    outputs: RunOutputs
    parent: Run

    def refused(self, words: str) -> _Unreadable:
        return _Unreadable(f"inputs.{self.number}.source: {words}")


def bring_outputs(ports: Ports, run: Run) -> Run | None:
    """The run with a place for each of its inputs that another run exported.

    None where the run ends, since there is nothing to read, and while there is more to copy.
    """
    until = monotonic() + COPY_SECONDS
    for number, one in enumerate(run.spec.inputs):
        outputs = RunOutputs.of(one.source)
        if outputs is None or one.source in run.outputs_at:
            continue
        try:
            place = _placed(ports, run, _wanted(ports, number, one.source, outputs), until)
        except _Unreadable as refused:
            _end(ports, run, str(refused))
            return None
        except _MoreToCopy as error:
            tell_delay(ports, run.id, f"outputs-{number}", f"inputs.{number} is copied", error)
            return None
        run = ports.runs.put(run.changed(outputs_at={**run.outputs_at, one.source: place}))
    return run


def _wanted(ports: Ports, number: int, source: str, outputs: RunOutputs) -> _Wanted:
    try:
        return _Wanted(number, source, outputs, ports.runs.get(outputs.run_id))
    except RunNotFound:
        raise _Unreadable(f"inputs.{number}.source: there is no run {outputs.run_id}") from None


def _placed(ports: Ports, run: Run, wanted: _Wanted, until: float) -> str:
    """Where the run's nodes read it. Raises _Unreadable, _MoreToCopy."""
    parent = wanted.parent
    export = parent.export
    if export is None or export.state != "verified":
        raise wanted.refused(
            f"run {parent.id} is {parent.status} and has no verified export, so it has no outputs"
        )
    if parent.prefix.startswith(f"{places.runs_prefix(run.cluster_name)}/"):
        _look(ports, wanted, export.manifest_key)
        prefix = wanted.outputs.below(parent.export_prefix)
    else:
        prefix = places.outputs_prefix(run.prefix, wanted.number)
        _copy_all(ports, wanted, export.manifest_key, prefix, until)
    return names.s3_uri(ports.blobs.bucket, prefix)


def _look(ports: Ports, wanted: _Wanted, manifest_key: str) -> None:
    """Raises _Unreadable where the export has nothing below the path."""
    if not any(_below(wanted, page) for page in _pages(ports, wanted, manifest_key)):
        raise _nothing(wanted)


def _copy_all(ports: Ports, wanted: _Wanted, manifest_key: str, to: str, until: float) -> None:
    """Copy what is not there yet. Raises _Unreadable, _MoreToCopy."""
    found = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for page in _pages(ports, wanted, manifest_key):
            objects = _below(wanted, page)
            found += len(objects)
            copies = [
                (wanted.parent.export_prefix + one.key, _target(wanted, one, to), one)
                for one in objects
            ]
            done = pool.map(
                lambda copy: monotonic() < until and _copy(ports, wanted, *copy), copies
            )
            if not all(list(done)):
                raise _MoreToCopy(f"{found} objects of {wanted.source} are copied, or nearly")
    if not found:
        raise _nothing(wanted)


def _pages(ports: Ports, wanted: _Wanted, manifest_key: str) -> Iterator[list[ExportedObject]]:
    token: str | None = None
    while True:
        try:
            page = ports.exports.objects(manifest_key, limit=_PAGE, token=token)
        except BlobNotFound:
            raise wanted.refused(f"the export of run {wanted.parent.id} is gone from S3") from None
        yield page.items
        token = page.next_token
        if token is None:
            return


def _below(wanted: _Wanted, objects: Sequence[ExportedObject]) -> list[ExportedObject]:
    """Those below the path. A node wrote the list: a key that is no plain path is left out."""
    prefix = wanted.outputs.below("")
    return [
        one
        for one in objects
        if one.key.startswith(prefix)
        and not any(part in ("", ".", "..") for part in one.key.split("/"))
    ]


def _target(wanted: _Wanted, one: ExportedObject, to: str) -> str:
    return to + one.key.removeprefix(wanted.outputs.below(""))


def _copy(ports: Ports, wanted: _Wanted, source: str, key: str, one: ExportedObject) -> bool:
    """Raises _Unreadable."""
    there = ports.blobs.head(key)
    if there is not None and there[0] == one.bytes:
        return True
    if one.bytes > MOST_BYTES:
        raise wanted.refused(
            f"'{one.key}' has {size(one.bytes)}, and at most {size(MOST_BYTES)} are copied to "
            "another cluster's runs; run both on one cluster, where nothing is copied"
        )
    if not ports.exports.copy(source, key):
        raise wanted.refused(f"'{one.key}' of run {wanted.parent.id} is gone from S3")
    return True


def _nothing(wanted: _Wanted) -> _Unreadable:
    where = f"below '{wanted.outputs.path}'" if wanted.outputs.path else "in it"
    return wanted.refused(
        f"the export of run {wanted.parent.id} has nothing {where}; see what it has: trainyard run "
        f"outputs {wanted.parent.id}"
    )


def _end(ports: Ports, run: Run, reason: str) -> None:
    now = ports.clock.now()
    ended = stopped(run, now, "failed", reason, problem("input-refused", reason))
    line = TimelineEntry(
        id=f"status-outputs-{run.life}", at=now, kind="status", type="Stopped", message=reason
    )
    ports.runs.put(ended, [line])
