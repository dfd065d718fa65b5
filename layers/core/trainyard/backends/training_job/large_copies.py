"""Copies objects that S3 does not copy in one piece: part by part, over several commands.

The copy has the parts of its source, so both have the same checksum of their parts' hashes. The
SHA-256 of the whole is what the container wrote beside the object when it sent it: it completes an
upload only if all parts together have that hash.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard_contracts import places

#: CopyObject takes no more.
MOST_BYTES_OF_A_COPY = 5 * 1024**3
_AT_ONCE = 16
_MISSING = {"NoSuchKey": errors.BlobNotFound, "404": errors.BlobNotFound}


class CopyImpossible(Exception):
    """The object cannot be copied; the message says why, and what would help."""


class _UploadGone(errors.TrainyardError):
    """It was completed, or S3 gave it up."""


_NO_UPLOAD = {"NoSuchUpload": _UploadGone}


class Part(BaseModel):
    """One that is copied, as CompleteMultipartUpload names it."""

    etag: str
    sha256: str


class Begun(BaseModel):
    """A copy that is not whole yet: what a later command goes on with."""

    upload_id: str
    parts: dict[int, Part] = {}


@dataclass(frozen=True)
class Whole:
    """The object as it is in S3; `sha256` in hex, `checksum` as S3 shows that of its parts."""

    bytes: int
    sha256: str
    checksum: str


@dataclass(frozen=True)
class _Source(Whole):
    etag: str
    part_bytes: int

    def ranges(self) -> Iterator[tuple[int, str]]:
        for number, begin in enumerate(range(0, self.bytes, self.part_bytes), 1):
            yield number, f"bytes={begin}-{min(begin + self.part_bytes, self.bytes) - 1}"


@dataclass
class LargeCopy:
    """Of one object within a bucket; `begun` is what earlier commands did of it."""

    s3: Any
    bucket: str
    key: str
    to: str
    begun: Begun = field(default_factory=lambda: Begun(upload_id=""))

    def go_on(self, in_time: Callable[[], bool]) -> Whole | None:
        """The copy once it is whole; None while it is not, and the time is over.

        Raises CopyImpossible, errors.BlobNotFound, errors.TrainyardError.
        """
        source = self._source()
        if self._has(source):
            return source
        if not self.begun.upload_id:
            self.begun = Begun(upload_id=self._begin(source))
        try:
            if not self._copy(source, in_time):
                return None
            self._complete()
        except _UploadGone:
            self.begun = Begun(upload_id="")  # another command completed it, or it is too old
            return source if self._has(source) else None
        if not self._has(source):
            raise CopyImpossible("was copied, and the copy has another checksum than its source")
        return source

    def _source(self) -> _Source:
        found = self._look(self.key)
        said = found.get("Metadata") or {}
        sha256, part_bytes = said.get(places.SHA256_BESIDE), said.get(places.PART_BYTES_BESIDE)
        checksum = str(found.get("ChecksumSHA256") or "")
        if not sha256 or not str(part_bytes).isdigit() or "-" not in checksum:
            raise CopyImpossible(
                "has more than 5 GiB and does not say its SHA-256; only files that Trainyard's own "
                "container sent say it: let another attempt write it anew, or delete it"
            )
        size = int(found["ContentLength"])
        return _Source(size, sha256, checksum, str(found["ETag"]), int(str(part_bytes)))

    def _look(self, key: str) -> dict[str, Any]:
        with translated(f"look at {key}", _MISSING):
            return dict(self.s3.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED"))

    def _has(self, source: _Source) -> bool:
        """Whether the copy is there, and is what its source is."""
        try:
            found = self._look(self.to)
        except errors.BlobNotFound:
            return False
        same = int(found["ContentLength"]) == source.bytes
        return same and found.get("ChecksumSHA256") == source.checksum

    def _begin(self, source: _Source) -> str:
        beside = {
            places.SHA256_BESIDE: source.sha256,
            places.PART_BYTES_BESIDE: str(source.part_bytes),
        }
        with translated(f"begin the copy of {self.key}"):
            answer = self.s3.create_multipart_upload(
                Bucket=self.bucket, Key=self.to, ChecksumAlgorithm="SHA256", Metadata=beside
            )
        return str(answer["UploadId"])

    def _copy(self, source: _Source, in_time: Callable[[], bool]) -> bool:
        """Whether all parts are copied."""
        left = [one for one in source.ranges() if one[0] not in self.begun.parts]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for begin in range(0, len(left), _AT_ONCE):
                if not in_time():
                    return False
                some = left[begin : begin + _AT_ONCE]
                parts = pool.map(lambda one: self._part(source, *one), some)
                self.begun.parts.update(zip((number for number, _ in some), parts, strict=True))
        return True

    def _part(self, source: _Source, number: int, range_: str) -> Part:
        with translated(f"copy a part of {self.key}", _NO_UPLOAD):
            answer = self.s3.upload_part_copy(
                Bucket=self.bucket,
                Key=self.to,
                UploadId=self.begun.upload_id,
                PartNumber=number,
                CopySource={"Bucket": self.bucket, "Key": self.key},
                CopySourceRange=range_,
                CopySourceIfMatch=source.etag,
            )["CopyPartResult"]
        return Part(etag=answer["ETag"], sha256=str(answer.get("ChecksumSHA256") or ""))

    def _complete(self) -> None:
        parts = [
            {"PartNumber": number, "ETag": part.etag, "ChecksumSHA256": part.sha256}
            for number, part in sorted(self.begun.parts.items())
        ]
        with translated(f"complete the copy of {self.key}", _NO_UPLOAD):
            self.s3.complete_multipart_upload(
                Bucket=self.bucket,
                Key=self.to,
                UploadId=self.begun.upload_id,
                MultipartUpload={"Parts": parts},
            )
