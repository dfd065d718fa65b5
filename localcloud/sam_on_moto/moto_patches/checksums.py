"""Keeps and checks the checksum of an object whose uploader computed it.

moto drops it, unless an algorithm header comes along.
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


def _verify(body: bytes, expected: str) -> None:
    from moto.s3.exceptions import S3ClientError

    if base64.b64encode(hashlib.sha256(body).digest()).decode() != expected:
        raise S3ClientError(
            "BadDigest", "The SHA256 you specified did not match the calculated checksum."
        )
