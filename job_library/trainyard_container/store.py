"""S3 as a container uses it: every object goes up with its SHA-256, and comes down compared.

What may pass (no answer, a throttled request) is tried again for minutes before it is an error.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from trainyard_contracts import places

#: A larger file goes up in parts.
PART_BYTES = 64 * 1024 * 1024
#: S3 takes 10,000 parts of an object.
_MOST_PARTS = 9000
#: So long what may pass is waited for.
PATIENCE_SECONDS = 300.0
_FIRST_PAUSE, _LAST_PAUSE = 0.5, 15.0
_BLOCK = 1 << 20
_MISSING = frozenset({"404", "NoSuchKey", "NotFound"})
_CHANGED = frozenset({"412", "PreconditionFailed"})
#: S3's words for what another try does not change.
_LASTING = frozenset(
    {"403", "AccessDenied", "NoSuchBucket", "InvalidBucketName", "BadDigest", "InvalidRequest",
     "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "InvalidAccessKeyId"}
)  # fmt: skip

T = TypeVar("T")


class Missing(Exception):
    """There is no such object; the message is its key."""


class StoreFailed(Exception):
    """S3 refuses, or does not answer; the message says which object and why.

    `lasting`: S3 refuses, and another try would not change that.
    """

    def __init__(self, words: str, *, lasting: bool = False) -> None:
        super().__init__(words)
        self.lasting = lasting


class Changed(StoreFailed):
    """The object is not the one that was listed."""


def checksum(hex_digest: str) -> str:
    """A SHA-256 as S3 writes it."""
    return base64.b64encode(bytes.fromhex(hex_digest)).decode()


def file_sha256(path: Path) -> str:
    """In hex, however large the file is. Raises OSError."""
    hashed = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            hashed.update(block)
    return hashed.hexdigest()


class Store:
    """One bucket. Its methods may be called in threads, and raise Missing and StoreFailed."""

    def __init__(
        self, client: Any, bucket: str, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._client, self.bucket = client, bucket
        self._patience = patience_seconds
        #: Set when nobody waits for another try any more.
        self.hurry = threading.Event()

    # -- down -------------------------------------------------------------------------------------
    def read(self, key: str) -> bytes:
        """A small object."""

        def read() -> bytes:
            return bytes(self._get(key)["Body"].read())

        return self._patiently(key, read)

    def fetch(self, key: str, path: Path, etag: str = "") -> str:
        """Write an object to a file, durably; its SHA-256 in hex.

        `etag`: only if it is still this one. Raises Changed otherwise.
        """

        def fetch() -> str:
            hashed = hashlib.sha256()
            with open(path, "wb") as stream:
                for block in self._get(key, etag)["Body"].iter_chunks(_BLOCK):
                    hashed.update(block)
                    stream.write(block)
                stream.flush()
                os.fsync(stream.fileno())
            return hashed.hexdigest()

        path.parent.mkdir(parents=True, exist_ok=True)
        return self._patiently(key, fetch)

    def _get(self, key: str, etag: str = "") -> Any:
        same = {"IfMatch": etag} if etag else {}
        return self._client.get_object(Bucket=self.bucket, Key=key, **same)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Every object below a prefix by its whole key."""
        return self._patiently(prefix, lambda: dict(self._listed(prefix, "Size")))

    def etags(self, prefix: str) -> dict[str, str]:
        """The same, with the ETag of each."""
        return self._patiently(prefix, lambda: dict(self._listed(prefix, "ETag")))

    def _listed(self, prefix: str, what: str) -> Iterator[tuple[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
            for entry in page.get("Contents") or []:
                yield str(entry["Key"]), entry[what]

    # -- up ---------------------------------------------------------------------------------------
    def write(self, key: str, body: bytes) -> None:
        """A small object; S3 compares its SHA-256."""
        sha256 = checksum(hashlib.sha256(body).hexdigest())
        self._patiently(
            key,
            lambda: self._client.put_object(
                Bucket=self.bucket, Key=key, Body=body, ChecksumSHA256=sha256
            ),
        )

    def send(self, path: Path, key: str, sha256: str) -> None:
        """A file of this SHA-256 (hex). One that is not so any more is refused: StoreFailed."""
        try:
            size = path.stat().st_size
            if size > PART_BYTES:
                self._send_parts(path, key, sha256, size)
            else:
                self.write_checked(key, path.read_bytes(), sha256)
        except OSError as error:
            raise StoreFailed(f"{path} cannot be read: {error}") from error

    def write_checked(self, key: str, body: bytes, sha256: str) -> None:
        if hashlib.sha256(body).hexdigest() != sha256:
            raise StoreFailed(f"{key}: its file changed after it was hashed")
        self.write(key, body)

    def _send_parts(self, path: Path, key: str, sha256: str, size: int) -> None:
        about = {"Bucket": self.bucket, "Key": key}
        part_bytes = max(PART_BYTES, -(-size // _MOST_PARTS))
        # S3 shows no SHA-256 of the whole, and an export copies the same parts.
        beside = {places.SHA256_BESIDE: sha256, places.PART_BYTES_BESIDE: str(part_bytes)}
        begun = self._patiently(
            key,
            lambda: self._client.create_multipart_upload(
                **about, ChecksumAlgorithm="SHA256", Metadata=beside
            ),
        )
        about["UploadId"] = begun["UploadId"]
        try:
            parts = list(self._parts(path, about, sha256, part_bytes))
            self._patiently(
                key,
                lambda: self._client.complete_multipart_upload(
                    **about, MultipartUpload={"Parts": parts}
                ),
            )
        except BaseException:
            with contextlib.suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(**about)
            raise

    def _parts(
        self, path: Path, about: dict[str, str], sha256: str, part_bytes: int
    ) -> Iterator[dict[str, Any]]:
        """Raises StoreFailed at the end where all parts are not the file that was hashed."""
        whole, number = hashlib.sha256(), 0
        with open(path, "rb") as stream:
            while body := stream.read(part_bytes):
                whole.update(body)
                number += 1
                own = checksum(hashlib.sha256(body).hexdigest())
                part = {"PartNumber": number, "ChecksumSHA256": own}
                said = self._patiently(about["Key"], self._sending(about, part, body))
                yield {**part, "ETag": said["ETag"]}
        if whole.hexdigest() != sha256:
            raise StoreFailed(f"{path} changed after it was hashed")

    def _sending(self, about: dict[str, str], part: dict[str, Any], body: bytes) -> Any:
        return lambda: self._client.upload_part(**about, **part, Body=body)

    def delete(self, key: str) -> None:
        """One that is not there is deleted, too."""
        self._patiently(key, lambda: self._client.delete_object(Bucket=self.bucket, Key=key))

    # -- what may pass ----------------------------------------------------------------------------
    def _patiently(self, key: str, call: Callable[[], T]) -> T:
        deadline, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                return call()
            except ClientError as error:
                code = str(error.response.get("Error", {}).get("Code", ""))
                if code in _MISSING:
                    raise Missing(key) from None
                if code in _CHANGED:
                    raise Changed(f"s3://{self.bucket}/{key} is not what was listed") from None
                lasting = code in _LASTING
                if lasting or time.monotonic() > deadline or self.hurry.is_set():
                    words = f"s3://{self.bucket}/{key}: {error}"
                    raise StoreFailed(words, lasting=lasting) from error
            except BotoCoreError as error:
                if time.monotonic() > deadline or self.hurry.is_set():
                    raise StoreFailed(f"s3://{self.bucket}/{key}: {error}") from error
            self.hurry.wait(pause)
            pause = min(_LAST_PAUSE, 2 * pause)
