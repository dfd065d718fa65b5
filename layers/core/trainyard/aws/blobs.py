"""The data bucket: every object is written with its SHA-256, which S3 checks and keeps."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors

_MISSING = {
    "NoSuchKey": errors.BlobNotFound,
    "404": errors.BlobNotFound,
    "NotFound": errors.BlobNotFound,
}


class S3Blobs:
    """The port `Blobs` on one bucket."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self.bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
        with translated(f"write s3://{self.bucket}/{key}"):
            self._s3.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                ChecksumAlgorithm="SHA256",
                ChecksumSHA256=checksum,
            )

    def get(self, key: str) -> bytes:
        with translated(f"read s3://{self.bucket}/{key}", _MISSING):
            body: bytes = self._s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def head(self, key: str) -> tuple[int, str | None] | None:
        try:
            with translated(f"look at s3://{self.bucket}/{key}", _MISSING):
                found = self._s3.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        except errors.BlobNotFound:
            return None
        return int(found["ContentLength"]), found.get("ChecksumSHA256")
