"""What people upload: S3 itself takes it, under URLs that fit one object of one hash and size."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard.outside.uploads import PutRequest
from trainyard_contracts import places
from trainyard_contracts.trees import Pack

_MISSING = {
    "NoSuchKey": errors.BlobNotFound,
    "404": errors.BlobNotFound,
    "NotFound": errors.BlobNotFound,
}


class S3Uploads:
    """The port `Uploads` on the data bucket."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def held(self, part: Pack) -> datetime | None:
        key = places.upload_key(part.sha256)
        try:
            with translated(f"look at s3://{self._bucket}/{key}", _MISSING):
                found = self._s3.head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED")
        except errors.BlobNotFound:
            return None
        same = found["ContentLength"] == part.bytes
        at: datetime = found["LastModified"]
        return at if same and found.get("ChecksumSHA256") == _checksum(part) else None

    def request(self, part: Pack, *, seconds: int) -> PutRequest:
        # botocore makes headers of these two, and signs them: S3 refuses a PUT that lacks one or
        # has another value, and then compares the bytes with the checksum.
        bound = {"ChecksumSHA256": _checksum(part), "ContentLength": part.bytes}
        url: str = self._s3.generate_presigned_url(
            "put_object",
            Params={"Bucket": self._bucket, "Key": places.upload_key(part.sha256), **bound},
            ExpiresIn=seconds,
        )
        headers = {
            "x-amz-checksum-sha256": _checksum(part),
            "content-length": str(part.bytes),
        }
        return PutRequest(url, headers)

    def copy(self, source: str, key: str) -> bool:
        try:
            with translated(f"copy s3://{self._bucket}/{source} to {key}", _MISSING):
                self._s3.copy_object(
                    Bucket=self._bucket,
                    Key=key,
                    CopySource={"Bucket": self._bucket, "Key": source},
                    ChecksumAlgorithm="SHA256",
                )
        except errors.BlobNotFound:
            return False
        return True


def _checksum(part: Pack) -> str:
    return base64.b64encode(bytes.fromhex(part.sha256)).decode()
