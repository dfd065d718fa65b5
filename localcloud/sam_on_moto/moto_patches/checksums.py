"""Keeps and checks the checksum of an object whose uploader computed it.

moto drops it, unless an algorithm header comes along. Of a part that is copied it says none, and of
an object of several parts HeadObject shows it without their number.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from sam_on_moto.moto_patches.pinned import replace

_ALGORITHMS = ("SHA256", "SHA1", "CRC32", "CRC32C", "CRC64NVME")


def install() -> None:
    """Hook moto's PutObject; once per process."""
    from moto.s3.responses import S3Response

    def checksum(self: Any, response_headers: dict[str, Any]) -> tuple[str, str | None]:
        given = {name: self.headers.get(f"x-amz-checksum-{name.lower()}") for name in _ALGORITHMS}
        algorithm, value = next(
            ((name, value) for name, value in given.items() if value), ("", None)
        )
        if not value or self.headers.get("x-amz-sdk-checksum-algorithm"):
            algorithm, value = original(self, response_headers)
        else:
            response_headers[f"x-amz-checksum-{algorithm.lower()}"] = value
        if algorithm == "SHA256" and given["SHA256"]:
            _verify(self.raw_body, given["SHA256"])
        return algorithm, value

    original = replace(
        S3Response, "_get_checksum", checksum, parameters=("self", "response_headers")
    )
    _say_those_of_copied_parts(S3Response)
    _say_the_number_of_parts(S3Response)


def _say_those_of_copied_parts(responses: Any) -> None:
    """Of an upload that was begun with SHA-256, as S3 does."""

    def copy(self: Any) -> Any:
        status, headers, body = original(self)
        upload = self.backend.get_bucket(self.bucket_name).multiparts.get(
            self._get_param("uploadId")
        )
        if upload is None or upload.metadata.get("x-amz-checksum-algorithm") != "SHA256":
            return status, headers, body
        value = upload.parts[self._get_int_param("partNumber")].value
        said = f"<ChecksumSHA256>{_sha256(value)}</ChecksumSHA256></CopyPartResult>"
        text = body if isinstance(body, str) else body.decode()
        text = text.replace("</CopyPartResult>", said)
        return status, {**headers, "content-length": str(len(text.encode()))}, text

    original = replace(responses, "upload_part_copy", copy, parameters=("self",))


def _say_the_number_of_parts(responses: Any) -> None:
    def head(self: Any, bucket_name: str, query: Any, key_name: str, headers: Any) -> Any:
        status, found, body = original(self, bucket_name, query, key_name, headers)
        name = "x-amz-checksum-sha256"
        if status == 200 and "-" not in found.get(name, "-"):
            version = query.get("versionId", [None])[0]
            key = self.backend.head_object(bucket_name, key_name, version_id=version)
            if key is not None and key.checksum_type == "COMPOSITE":
                found = {**found, name: f"{key.checksum_value}-{key.checksum_parts}"}
        return status, found, body

    original = replace(
        responses,
        "head_object",
        head,
        parameters=("self", "bucket_name", "query", "key_name", "headers"),
    )


def _verify(body: bytes, expected: str) -> None:
    from moto.s3.exceptions import S3ClientError

    if _sha256(body) != expected:
        raise S3ClientError(
            "BadDigest", "The SHA256 you specified did not match the calculated checksum."
        )


def _sha256(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()
