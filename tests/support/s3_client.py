"""A stand-in for boto3's client of S3: what a container of a training job calls, in memory."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "call")


def _etag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


class Body(io.BytesIO):
    def iter_chunks(self, size: int) -> Iterator[bytes]:
        while block := self.read(size):
            yield block


class S3Client:
    """`before` is called with the name of each operation and its key; it may raise."""

    def __init__(self, before: Callable[[str, str], None] = lambda _name, _key: None) -> None:
        self.objects: dict[str, bytes] = {}
        #: What was said of each object that went up in parts.
        self.beside: dict[str, dict[str, str]] = {}
        self.before = before
        self._uploads: dict[str, dict[int, bytes]] = {}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ChecksumSHA256: str) -> Any:
        self.before("put", Key)
        self._compare(Body, ChecksumSHA256)
        self.objects[Key] = Body
        return {}

    def get_object(self, *, Bucket: str, Key: str, IfMatch: str = "") -> Any:
        self.before("get", Key)
        if Key not in self.objects:
            raise refusal("NoSuchKey")
        if IfMatch not in ("", _etag(self.objects[Key])):
            raise refusal("PreconditionFailed")
        return {"Body": Body(self.objects[Key])}

    def delete_object(self, *, Bucket: str, Key: str) -> Any:
        self.before("delete", Key)
        self.objects.pop(Key, None)
        return {}

    def get_paginator(self, _operation: str) -> S3Client:
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> Iterator[Any]:
        self.before("list", Prefix)
        keys = sorted(key for key in self.objects if key.startswith(Prefix))
        found = {key: self.objects[key] for key in keys}
        yield {
            "Contents": [
                {"Key": key, "Size": len(body), "ETag": _etag(body)} for key, body in found.items()
            ]
        }

    def create_multipart_upload(
        self, *, Bucket: str, Key: str, ChecksumAlgorithm: str, Metadata: dict[str, str]
    ) -> Any:
        self.before("create", Key)
        self.beside[Key] = Metadata
        self._uploads[Key] = {}
        return {"UploadId": Key}

    def upload_part(
        self,
        *,
        Bucket: str,
        Key: str,
        UploadId: str,
        PartNumber: int,
        ChecksumSHA256: str,
        Body: bytes,
    ) -> Any:
        self.before("part", Key)
        self._compare(Body, ChecksumSHA256)
        self._uploads[UploadId][PartNumber] = Body
        return {"ETag": str(PartNumber)}

    def complete_multipart_upload(
        self, *, Bucket: str, Key: str, UploadId: str, MultipartUpload: Any
    ) -> Any:
        self.before("complete", Key)
        parts = self._uploads.pop(UploadId)
        assert [part["PartNumber"] for part in MultipartUpload["Parts"]] == sorted(parts)
        self.objects[Key] = b"".join(parts[number] for number in sorted(parts))
        return {}

    def abort_multipart_upload(self, *, Bucket: str, Key: str, UploadId: str) -> Any:
        self._uploads.pop(UploadId, None)
        return {}

    @property
    def open_uploads(self) -> int:
        return len(self._uploads)

    @staticmethod
    def _compare(body: bytes, checksum: str) -> None:
        if base64.b64encode(hashlib.sha256(body).digest()).decode() != checksum:
            raise refusal("BadDigest")
