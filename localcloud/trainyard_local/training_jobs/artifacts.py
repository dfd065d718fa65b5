"""What a job leaves in S3 at its end: its model, and the other files of its output."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard_local.training_jobs import words
from trainyard_local.training_jobs.host import Host
from trainyard_local.training_jobs.objects import Location, Objects, Refused
from trainyard_local.training_jobs.objects import words as said
from trainyard_local.training_jobs.views import compressed, output_uri

MODEL, OUTPUT = "model", "output/data"


class UploadFailed(Exception):
    """The results are not in S3; the message is the job's FailureReason."""


def upload(
    request: Mapping[str, Any], objects: Objects, hosts: Sequence[Host], directory: Path, part: str
) -> bool:
    """The files of all hosts below `part` of /opt/ml; False if there is none.

    Where two hosts have a file of one name, the first host's counts. Raises UploadFailed.
    """
    files = dict(_files(hosts, part))
    location, name = Location.of(output_uri(request)), part.partition("/")[0]
    try:
        if files and compressed(request):
            archive = _archive(files, directory / f"{name}.tar.gz")
            objects.put(archive, location.bucket, location.below(archive.name))
        elif files:
            for inside, file in files.items():
                objects.put(file, location.bucket, location.below(f"{name}/{inside}"))
    except (*Refused, OSError) as error:
        reason = f"Artifact upload failed:{said(error)}"
        raise UploadFailed(words.client_error(reason)) from error
    return bool(files)


def _files(hosts: Sequence[Host], part: str) -> Iterator[tuple[str, Path]]:
    for host in reversed(hosts):
        root = host.ml / part
        for file in sorted(root.rglob("*")):
            if file.is_file():
                yield file.relative_to(root).as_posix(), file


def _archive(files: Mapping[str, Path], target: Path) -> Path:
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for name, file in files.items():
            archive.add(file, name)
    return target
