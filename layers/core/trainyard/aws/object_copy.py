"""Copies an object within the data bucket, in one piece or in parts where S3 takes no other way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors

#: CopyObject takes 5 GiB at most; from here on parts that go at once are faster.
ONE_PIECE_BYTES = 1024**3
PART_BYTES = 256 * 1024**2
_AT_ONCE = 16
_MISSING = {
    "NoSuchKey": errors.BlobNotFound,
    "404": errors.BlobNotFound,
    "NotFound": errors.BlobNotFound,
    "PreconditionFailed": errors.RetryableError,
}


@dataclass(frozen=True)
class ObjectCopy:
    """Of one object to another key; what is there already is replaced when the copy is whole."""

    s3: Any
    bucket: str
    source: str
    key: str
    one_piece_bytes: int = ONE_PIECE_BYTES
    part_bytes: int = PART_BYTES

    def run(self) -> None:
        """Raises errors.BlobNotFound, errors.TrainyardError."""
        with translated(f"look at {self.source}", _MISSING):
            found = self.s3.head_object(Bucket=self.bucket, Key=self.source)
        if int(found["ContentLength"]) <= self.one_piece_bytes:
            with translated(f"copy {self.source} to {self.key}", _MISSING):
                self.s3.copy_object(
                    Bucket=self.bucket,
                    Key=self.key,
                    CopySource={"Bucket": self.bucket, "Key": self.source},
                    CopySourceIfMatch=found["ETag"],
                    ChecksumAlgorithm="SHA256",
                )
            return
        self._in_parts(int(found["ContentLength"]), str(found["ETag"]))

    def _in_parts(self, size: int, etag: str) -> None:
        """An upload that is left behind is given up by the bucket's lifecycle rule."""
        with translated(f"begin the copy of {self.source}"):
            upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key=self.key)["UploadId"]
        begins = range(0, size, self.part_bytes)
        ranges = [f"bytes={begin}-{min(begin + self.part_bytes, size) - 1}" for begin in begins]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            numbers = range(1, len(ranges) + 1)
            parts = list(pool.map(lambda n, r: self._part(upload, etag, n, r), numbers, ranges))
        with translated(f"complete the copy of {self.source}"):
            self.s3.complete_multipart_upload(
                Bucket=self.bucket,
                Key=self.key,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
            )

    def _part(self, upload: str, etag: str, number: int, range_: str) -> dict[str, Any]:
        with translated(f"copy a part of {self.source}", _MISSING):
            answer = self.s3.upload_part_copy(
                Bucket=self.bucket,
                Key=self.key,
                UploadId=upload,
                PartNumber=number,
                CopySource={"Bucket": self.bucket, "Key": self.source},
                CopySourceRange=range_,
                CopySourceIfMatch=etag,
            )
        return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}
