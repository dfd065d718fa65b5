"""Exports a run from its directory in S3: S3 copies each object, and we compare its SHA-256.

A large export takes many commands. What is done is kept in an object of its own, so that each goes
on where the last one ended, or died.
"""

import hashlib
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from pydantic import BaseModel, ValidationError

from trainyard.backends.training_job import large_copies
from trainyard.backends.training_job.chosen import Chosen, choose, groups
from trainyard.backends.training_job.directory import S3Directory
from trainyard.backends.training_job.large_copies import Begun, CopyImpossible
from trainyard.domain.errors import BlobNotFound, RetryableError, TrainyardError
from trainyard.outside.blobs import Blobs
from trainyard.outside.clock import Clock
from trainyard_contracts import places
from trainyard_contracts.commands import Export, Exporting
from trainyard_contracts.files import CheckpointManifest, ExportedObject, ExportManifest

_AT_ONCE = 16
#: Of a command's time so much is left for what comes after the copies.
_SPARE_SECONDS = 20.0
#: What is done is kept this often; a copy that is made twice does no harm.
_KEEP_SECONDS = 5.0


class ExportImpossible(Exception):
    """The export cannot be made; the message is for the person who asked for it."""


class Progress(BaseModel):
    """What earlier commands did of an export, by path."""

    done: dict[str, ExportedObject] = {}
    begun: dict[str, Begun] = {}


class Exporter:
    """Of one run. `prefix` is the export's key in the data bucket; it ends with a slash."""

    def __init__(self, directory: S3Directory, blobs: Blobs, prefix: str, clock: Clock) -> None:
        self._directory = directory
        self._blobs = blobs
        self._prefix = prefix
        self._clock = clock

    def export(self, given: Export, timeout_seconds: float) -> Exporting:
        """Copy for as long as the command may take.

        Raises ExportImpossible, also for what AWS refuses; what passes is a RetryableError.
        """
        try:
            return self._exported(given, timeout_seconds)
        except RetryableError:
            raise
        except TrainyardError as refused:
            raise ExportImpossible(refused.detail) from refused

    def _exported(self, given: Export, timeout_seconds: float) -> Exporting:
        until = monotonic() + max(1.0, timeout_seconds - _SPARE_SECONDS)
        files = {found.path: found.bytes for found in self._directory.files()}
        chosen = choose(files, self._manifests(files, given.run), given.checkpoints)
        progress = self._progress(given.export_id)
        if not self._copy(given.export_id, chosen, progress, until):
            self._keep(given.export_id, progress)
            return Exporting("paused")
        return Exporting("finished", self._write_manifest(given.run, chosen, progress.done))

    def _copy(self, export_id: str, chosen: Chosen, progress: Progress, until: float) -> bool:
        """Whether all is copied. What is done is kept soon: this process may die amid a copy."""
        left = [path for path in chosen.files if path not in progress.done]
        large = [path for path in left if chosen.files[path] > large_copies.MOST_BYTES_OF_A_COPY]
        small = [path for path in left if path not in set(large)]
        kept_at = monotonic()

        def in_time() -> bool:
            nonlocal kept_at
            now = monotonic()
            if now >= until or now >= kept_at + _KEEP_SECONDS:
                self._keep(export_id, progress)
                kept_at = now
            return now < until

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for begin in range(0, len(small), _AT_ONCE):
                if not in_time():
                    return False
                some = small[begin : begin + _AT_ONCE]
                copied = pool.map(lambda path: self._copied(chosen, path), some)
                progress.done.update(zip(some, copied, strict=True))
        return all(self._copied_in_parts(chosen, path, progress, in_time) for path in large)

    def _copied_in_parts(
        self, chosen: Chosen, path: str, progress: Progress, in_time: Callable[[], bool]
    ) -> bool:
        """Whether the copy is whole. Raises ExportImpossible."""
        copy = self._directory.large_copy(path, self._prefix + path, progress.begun.get(path))

        def go_on() -> bool:
            progress.begun[path] = copy.begun
            return in_time()

        try:
            whole = copy.go_on(go_on)
        except BlobNotFound:
            raise _vanished(path) from None
        except CopyImpossible as why:
            raise ExportImpossible(f"{path} {why}") from why
        if whole is None:
            progress.begun[path] = copy.begun
            return False
        progress.begun.pop(path, None)
        self._compare(chosen, path, whole.sha256)
        progress.done[path] = ExportedObject(
            key=path, bytes=whole.bytes, sha256=whole.sha256, checksum=whole.checksum
        )
        return True

    def _manifests(self, files: Mapping[str, int], run_id: str) -> dict[str, CheckpointManifest]:
        """Those that can be read and are the run's own."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = dict(zip(all_ := groups(files), pool.map(self._manifest, all_), strict=True))
        return {
            group: manifest
            for group, manifest in found.items()
            if manifest is not None and manifest.run_id == run_id
        }

    def _manifest(self, group: str) -> CheckpointManifest | None:
        try:
            body = self._directory.read(f"{group}/{places.CHECKPOINT_MANIFEST}")
            return CheckpointManifest.model_validate_json(body)
        except (BlobNotFound, ValidationError):
            return None

    def _copied(self, chosen: Chosen, path: str) -> ExportedObject:
        """Raises ExportImpossible."""
        try:
            checksum = self._directory.copy(path, self._prefix + path)
        except BlobNotFound:
            raise _vanished(path) from None
        if not checksum or "-" in checksum:
            raise ExportImpossible(f"S3 did not say the SHA-256 of its copy of {path}")
        sha256 = b64decode(checksum).hex()
        self._compare(chosen, path, sha256)
        return ExportedObject(key=path, bytes=chosen.files[path], sha256=sha256)

    def _compare(self, chosen: Chosen, path: str, sha256: str) -> None:
        if chosen.hashes.get(path, sha256) != sha256:
            raise ExportImpossible(f"{path} has another SHA-256 than its manifest says")

    def _progress(self, export_id: str) -> Progress:
        try:
            return Progress.model_validate_json(self._blobs.get(self._progress_key(export_id)))
        except (BlobNotFound, ValidationError):
            return Progress()

    def _keep(self, export_id: str, progress: Progress) -> None:
        self._blobs.put(self._progress_key(export_id), progress.model_dump_json().encode())

    def _progress_key(self, export_id: str) -> str:
        return f"{self._prefix}progress-{export_id}.json"

    def _write_manifest(
        self, run_id: str, chosen: Chosen, done: Mapping[str, ExportedObject]
    ) -> str:
        """Last of all; its SHA-256."""
        objects: Iterable[ExportedObject] = (done[path] for path in chosen.files)
        manifest = ExportManifest(
            run_id=run_id,
            created_at=self._clock.now(),
            objects=list(objects),
            last_step=chosen.last_step,
            final_model=chosen.final_model,
            output_files=chosen.count(places.OUTPUT),
            working_files=chosen.count(places.WORK),
        )
        body = manifest.model_dump_json(by_alias=True, indent=1).encode()
        self._blobs.put(f"{self._prefix}{places.EXPORT_MANIFEST}", body)
        return hashlib.sha256(body).hexdigest()


def _vanished(path: str) -> ExportImpossible:
    return ExportImpossible(f"{path} was there a moment ago and is gone now")
