"""A directory as objects of a bucket, with POSIX metadata beside each, and back."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from trainyard_local.local_cloud import LocalCloud

MOST_KEY_BYTES = 1024
#: Of FSx ("POSIX metadata support for data repositories").
_PERMISSIONS, _OWNER, _GROUP = "file-permissions", "file-owner", "file-group"


@dataclass
class Copied:
    """What became of each file."""

    done: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)  # path, why


@dataclass(frozen=True)
class Repository:
    """The prefix of a bucket, reached as FSx does: with rights of its own."""

    client: Any
    bucket: str
    prefix: str

    @classmethod
    def of(cls, cloud: LocalCloud, uri: str) -> Repository:
        owner = cloud.access.owner
        client = boto3.Session().client(
            "s3",
            endpoint_url=cloud.endpoint,
            region_name=cloud.region,
            aws_access_key_id=owner.access_key_id,
            aws_secret_access_key=owner.secret_access_key,
            config=Config(retries={"max_attempts": 2}, s3={"addressing_style": "path"}),
        )
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        prefix = prefix.strip("/")
        return cls(client, bucket, f"{prefix}/" if prefix else "")

    def look(self) -> None:
        """Raises ClientError where there is no such bucket."""
        self.client.head_bucket(Bucket=self.bucket)

    def import_into(self, root: Path) -> int:
        """Make a file of each object; returns how many."""
        count = 0
        for key in list(self._keys()):
            relative = key.removeprefix(self.prefix)
            place = (root / relative).resolve() if not relative.endswith("/") else root / relative
            if not relative or not place.resolve().is_relative_to(root.resolve()):
                continue
            self._import(key, root / relative)
            count += 1
        return count

    def _keys(self) -> Iterator[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.prefix
        )
        for page in pages:
            yield from (entry["Key"] for entry in page.get("Contents") or [])

    def _import(self, key: str, place: Path) -> None:
        metadata = self.client.head_object(Bucket=self.bucket, Key=key)["Metadata"]
        mode = int(metadata.get(_PERMISSIONS, "0"), 8)
        if key.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        elif stat.S_ISLNK(mode):
            place.parent.mkdir(parents=True, exist_ok=True)
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            with suppress(FileExistsError):
                place.symlink_to(body.decode())
            return
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(self.bucket, key, str(place))
        if mode:
            os.chmod(place, stat.S_IMODE(mode))
        if metadata.get(_OWNER, "").isdecimal() and os.geteuid() == 0:
            os.chown(place, int(metadata[_OWNER]), int(metadata.get(_GROUP) or 0))

    def export_from(self, root: Path, known: dict[str, tuple[int, int]]) -> Copied:
        """Put what changed since `known` was noted; each file by itself, as it is then."""
        copied = Copied()
        for path in _below(root):
            name = str(path.relative_to(root))
            try:
                state = path.lstat()
                mark = (state.st_mtime_ns, state.st_size)
                if known.get(name) == mark:
                    continue
                self._export(path, name, state)
            except Exception as error:  # noqa: BLE001  (one file's trouble is that file's)
                copied.failed.append((name, str(error)))
            else:
                known[name] = mark
                copied.done += 1
        return copied

    def _export(self, path: Path, name: str, state: os.stat_result) -> None:
        is_directory = stat.S_ISDIR(state.st_mode)
        key = f"{self.prefix}{name}{'/' if is_directory else ''}"
        if len(key.encode()) > MOST_KEY_BYTES:
            raise ValueError(f"its key would be longer than {MOST_KEY_BYTES} bytes")
        metadata = {
            _PERMISSIONS: f"0{state.st_mode:o}",
            _OWNER: str(state.st_uid),
            _GROUP: str(state.st_gid),
            "user-agent": "aws-fsx-lustre",
        }
        if stat.S_ISREG(state.st_mode):
            arguments = {"Metadata": metadata}
            self.client.upload_file(str(path), self.bucket, key, ExtraArgs=arguments)
            return
        if not is_directory and not stat.S_ISLNK(state.st_mode):
            raise ValueError("it is neither a file nor a directory nor a symbolic link")
        body = b"" if is_directory else os.readlink(path).encode()
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body, Metadata=metadata)

    def put(self, uri: str, body: bytes) -> None:
        """An object at a place of its own within the repository."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        self.client.put_object(Bucket=bucket, Key=key, Body=body)


def marks(root: Path) -> dict[str, tuple[int, int]]:
    """Of each path: when it changed, and its size."""
    found = {}
    for path in _below(root):
        state = path.lstat()
        found[str(path.relative_to(root))] = (state.st_mtime_ns, state.st_size)
    return found


def _below(root: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(root):
        for name in sorted([*names, *files]):
            yield Path(directory) / name
