"""The data of a job's channels, copied to its hosts or mounted there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard_local.training_jobs import words
from trainyard_local.training_jobs.host import Host
from trainyard_local.training_jobs.objects import Location, Objects, Refused
from trainyard_local.training_jobs.objects import words as said

Channel = Mapping[str, Any]
#: Below the state directory, by the id of the file system.
FILESYSTEMS = "fsx"


class InputFailed(Exception):
    """The data cannot be had; the message is the job's FailureReason."""


def sources(request: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """(channel, S3 source) of the channels that are copied."""
    return [
        (channel["ChannelName"], channel["DataSource"]["S3DataSource"])
        for channel in request.get("InputDataConfig") or []
        if channel["DataSource"].get("S3DataSource")
    ]


def first_missing(request: Mapping[str, Any], objects: Objects, region: str) -> str:
    """Why the role finds nothing of a channel; an empty string if all have something."""
    for _, source in sources(request):
        location, because = Location.of(source["S3Uri"]), "there is no such object"
        try:
            if next(objects.keys(location, at_most=1), None) is not None:
                continue
        except Refused as error:
            because = said(error)
        return words.nothing_below(
            source["S3Uri"], location.bucket, request["RoleArn"], region, because
        )
    return ""


def copy(request: Mapping[str, Any], objects: Objects, hosts: Sequence[Host]) -> None:
    """Copy all channels to all hosts. Raises InputFailed."""
    for name, source in sources(request):
        location = Location.of(source["S3Uri"])
        try:
            keys = [key for key in objects.keys(location) if not key.endswith("/")]
            for host, part in zip(hosts, shares(source, keys, len(hosts)), strict=True):
                for key in part:
                    file = host.ml / "input" / "data" / name / relative(location.prefix, key)
                    objects.get(location.bucket, key, file)
        except (*Refused, OSError) as error:
            raise InputFailed(words.client_error(f"Data download failed:{said(error)}")) from error


def shares(source: Mapping[str, Any], keys: Sequence[str], hosts: int) -> list[Sequence[str]]:
    """Each host's part of the keys: all of them, or one of as many parts as there are hosts."""
    if source.get("S3DataDistributionType") == "ShardedByS3Key":
        return [keys[number::hosts] for number in range(hosts)]
    return [keys] * hosts


def relative(prefix: str, key: str) -> str:
    """Where an object lies in its channel; one that the URI names wholly, by its last name."""
    return key.removeprefix(prefix).lstrip("/") or key.rsplit("/", maxsplit=1)[-1]


def filesystems(request: Mapping[str, Any], state_dir: Path) -> list[tuple[str, str, bool]]:
    """(directory here, path in the container, writable) of the channels that are mounted.

    Raises InputFailed for a directory that is not there.
    """
    found = []
    for channel in request.get("InputDataConfig") or []:
        if source := channel["DataSource"].get("FileSystemDataSource"):
            target = f"/opt/ml/input/data/{channel['ChannelName']}"
            writable = source["FileSystemAccessMode"] == "rw"
            found.append((str(_directory(source, state_dir)), target, writable))
    return found


def _directory(source: Mapping[str, Any], state_dir: Path) -> Path:
    root = (state_dir / FILESYSTEMS / str(source["FileSystemId"])).resolve()
    path: Path = (root / source["DirectoryPath"].strip("/")).resolve()
    if not path.is_relative_to(root) or not path.is_dir():
        raise InputFailed(
            words.client_error(
                f"Unable to mount file system: {source['FileSystemId']} directory path: "
                f"{source['DirectoryPath']}. Incorrect mount path. Please ensure the mount path "
                "specified exists on the filesystem."
            )
        )
    return path
