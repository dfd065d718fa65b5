"""What was exported: the manifest is read by ranges, and S3 hands out the objects itself."""

from __future__ import annotations

from typing import Any

from trainyard.aws import page_tokens
from trainyard.aws.object_copy import ObjectCopy
from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard.domain.manifest_pages import NotAManifest, read_part
from trainyard.outside.pages import Page
from trainyard_contracts.files import ExportedObject

_MISSING = {
    "NoSuchKey": errors.BlobNotFound,
    "404": errors.BlobNotFound,
    "InvalidRange": errors.BadPageToken,
    "PreconditionFailed": errors.ConflictError,
}
#: An object's entry has some 300 bytes, and at most a few thousand.
_BYTES_OF_ONE, _LEAST_BYTES = 400, 64 * 1024


class S3Exports:
    """The port `Exports` on the data bucket."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    def objects(self, manifest_key: str, *, limit: int, token: str | None) -> Page[ExportedObject]:
        query = ("export", manifest_key)
        start, version = _position(page_tokens.decode(query, token))
        found: list[ExportedObject] = []
        end: int | None = start
        while end is not None and len(found) < limit:
            size = max(_LEAST_BYTES, (limit - len(found)) * _BYTES_OF_ONE)
            window, version = self._read(manifest_key, end, size, version)
            try:
                part = read_part(window, end, limit - len(found))
            except NotAManifest as wrong:
                raise errors.TrainyardError(f"{manifest_key} is not a manifest: {wrong}") from None
            if part.end == end:
                raise errors.TrainyardError(f"{manifest_key} is cut at byte {end}")
            found, end = found + part.objects, part.end
        position = None if end is None else page_tokens.encode(query, f"{end} {version}")
        return Page(found, position)

    def copy(self, source: str, key: str) -> bool:
        try:
            ObjectCopy(self._s3, self._bucket, source, key).run()
        except errors.BlobNotFound:
            return False
        return True

    def url(self, key: str, *, seconds: int) -> str:
        url: str = self._s3.generate_presigned_url(
            "get_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=seconds
        )
        return url

    def _read(self, key: str, start: int, size: int, version: str) -> tuple[bytes, str]:
        """A range of the very manifest that the pages before were of, and its ETag."""
        same = {"IfMatch": version} if version else {}
        with translated(f"read s3://{self._bucket}/{key}", _MISSING):
            answer = self._s3.get_object(
                Bucket=self._bucket, Key=key, Range=f"bytes={start}-{start + size - 1}", **same
            )
            return answer["Body"].read(), answer["ETag"]


def _position(text: str | None) -> tuple[int, str]:
    """Raises BadPageToken for what we did not make: tokens are not signed."""
    if text is None:
        return 0, ""
    start, _, version = text.partition(" ")
    if not start.isdecimal() or len(start) > 15 or not version:
        raise errors.BadPageToken("nextToken: is not one that this API gave out")
    return int(start), version
