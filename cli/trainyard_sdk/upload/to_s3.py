"""Sends a directory's files into a bucket of the user's own, with the user's own AWS credentials.

Runs read them there as `inputs` of S3. Nothing is ever deleted there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..problems import InvalidInput, Refused, SdkError
from ..progress import Counted, Told
from ..terminal_text import plain
from .scan import Entry, Scan

if TYPE_CHECKING:
    from ..connection import Connection

#: Larger files go up in parts of this size, whose MD5s make the object's ETag.
PART_BYTES = 64 * 1024 * 1024
AT_ONCE = 16
#: Of all files that changed while they went up.
TRIES = 3
_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9_.=+@/-]*))?")


@dataclass(frozen=True)
class Destination:
    """Where the files go; `prefix` ends with a slash unless it is empty."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, uri: str) -> Destination:
        """Raises InvalidInput."""
        found = _URI.fullmatch(uri)
        prefix = (found.group(2) or "").strip("/") if found else ""
        if found is None or ".." in prefix.split("/") or "//" in prefix:
            raise InvalidInput(
                "The place in S3 cannot be used",
                f"'{plain(uri)}' must be s3://BUCKET/PREFIX/, with letters, digits and _ . = + @ - "
                "between the slashes",
                "Give a place such as s3://my-corpus/tokens/v1/",
            )
        return cls(found.group(1), f"{prefix}/" if prefix else "")

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def s3_client(connection: Connection) -> Any:
    """A client with the user's own credentials; on the local cloud with those of its owner."""
    import boto3
    from botocore.config import Config

    local = connection.local
    if local is None:
        return boto3.client("s3", config=Config(max_pool_connections=AT_ONCE))
    return boto3.client(
        "s3",
        endpoint_url=local["endpoint"],
        region_name=local["region"],
        aws_access_key_id=local["accessKeyId"],
        aws_secret_access_key=local["secretAccessKey"],
        aws_session_token=local.get("sessionToken"),
        config=Config(max_pool_connections=AT_ONCE, s3={"addressing_style": "path"}),
    )


def send_to_s3(s3: Any, found: Scan, where: Destination, told: Told) -> list[str]:
    """Send the files that are not there with the same bytes; their paths.

    Raises SdkError. What has arrived stays, and the same call sends the rest.
    """
    with _told(where):
        there = dict(_objects(s3, where))
        missing = [one for one in found.files if not _same(found.root, one, there.get(one.path))]
        counted = Counted(told)
        counted.expect(sum(one.bytes for one in missing))
        changed = missing
        for _ in range(TRIES):
            changed = _sent(s3, found.root, changed, where, counted)
            if not changed:
                return [one.path for one in missing]
    raise InvalidInput(
        "A file changes while it is uploaded",
        f"'{plain(changed[0].path)}' changed in each of {TRIES} tries",
        "Stop what writes it, or name it in .trainyardignore",
    )


def _objects(s3: Any, where: Destination) -> Iterator[tuple[str, tuple[int, str]]]:
    """Size and ETag of what is there, by path."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=where.bucket, Prefix=where.prefix)
    for page in pages:
        for one in page.get("Contents", []):
            path = one["Key"].removeprefix(where.prefix)
            yield path, (one["Size"], one["ETag"].strip('"'))


def _same(root: Path, entry: Entry, seen: tuple[int, str] | None) -> bool:
    """Whether the object has these bytes. With a KMS key its ETag is no MD5: then it is sent."""
    return seen is not None and seen[0] == entry.bytes and seen[1] == etag(root / entry.path)


def etag(path: Path) -> str:
    """The ETag of an object that came as we send it."""
    parts = []
    with path.open("rb") as stream:
        while part := stream.read(PART_BYTES):
            parts.append(hashlib.md5(part, usedforsecurity=False))
    if len(parts) <= 1:
        return (parts or [hashlib.md5(usedforsecurity=False)])[0].hexdigest()
    whole = hashlib.md5(b"".join(part.digest() for part in parts), usedforsecurity=False)
    return f"{whole.hexdigest()}-{len(parts)}"


def _sent(
    s3: Any, root: Path, files: list[Entry], where: Destination, counted: Counted
) -> list[Entry]:
    """Send these files; those that changed meanwhile, as they are now."""
    from boto3.s3.transfer import TransferConfig, create_transfer_manager

    config = TransferConfig(
        # Larger by one byte: a file of exactly one part goes up without parts.
        multipart_threshold=PART_BYTES + 1,
        multipart_chunksize=PART_BYTES,
        max_concurrency=AT_ONCE,
    )
    with create_transfer_manager(s3, config) as manager:
        coming = [
            manager.upload(
                str(root / one.path),
                where.bucket,
                f"{where.prefix}{one.path}",
                subscribers=[_Progress(one.path, counted)],
            )
            for one in files
        ]
        for future in coming:
            future.result()
    now = [Entry.of(one.path, (root / one.path).stat()) for one in files]
    return [new for old, new in zip(files, now, strict=True) if new != old]


class _Progress:
    """What s3transfer calls as bytes of a file go up."""

    def __init__(self, path: str, counted: Counted) -> None:
        self._path, self._counted, self._done = path, counted, 0

    def on_progress(self, bytes_transferred: int, **_: Any) -> None:
        self._done += bytes_transferred
        self._counted.at(self._path, self._done)


@contextmanager
def _told(where: Destination) -> Iterator[None]:
    """Say what AWS refused, and what to do about it."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except NoCredentialsError:
        raise Refused(
            "No AWS credentials",
            f"files go into {where} with your own credentials, and there are none",
            "Run: aws configure sso, or upload under a NAME in place of an s3:// address",
        ) from None
    except ClientError as refusal:
        code = refusal.response.get("Error", {}).get("Code", "")
        raise Refused(
            f"S3 refuses {where}",
            plain(str(refusal)),
            "Correct the bucket's name"
            if code in ("NoSuchBucket", "404")
            else "Ask for s3:ListBucket and s3:PutObject there, or upload under a NAME in place of "
            "an s3:// address",
        ) from None
    except (Boto3Error, BotoCoreError, OSError) as error:
        raise SdkError(
            f"The upload into {where} stopped",
            plain(str(error)),
            "The same command sends only the rest",
        ) from None
