"""The archive that AWS's toolkit unpacks in the container: our packages for jobs, as they are."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import trainyard_contracts


def source_archive() -> bytes:
    """The same bytes for the same files, on every machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in _files(Path(trainyard_contracts.__file__).parents[2]):
            body = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(body), 0o644
            tar.addfile(entry, io.BytesIO(body))
    return gzip.compress(packed.getvalue(), mtime=0)


def _files(opt: Path) -> Iterator[tuple[str, Path]]:
    for part in (
        "trainyard_entry.py",
        "trainyard_container",
        "trainyard_trainers",
        "trainyard_job",
    ):
        top = opt / part
        found = [top] if top.is_file() else sorted(top.rglob("*.py"))
        yield from ((path.relative_to(opt).as_posix(), path) for path in found)
