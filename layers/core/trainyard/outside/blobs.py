"""Objects of the data bucket."""

from __future__ import annotations

from typing import Protocol


class Blobs(Protocol):
    """Objects of the data bucket."""

    bucket: str

    def put(self, key: str, body: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """Raises errors.BlobNotFound."""
        ...

    def head(self, key: str) -> tuple[int, str | None] | None:
        """(bytes, SHA-256 checksum), or None if there is no such object.

        The checksum is as S3 shows it: base64, '<base64>-<parts>' of an object that was uploaded in
        parts, or None.
        """
        ...
