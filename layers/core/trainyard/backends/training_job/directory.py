"""A run's directory in the data bucket, as its jobs write it: what is there, and copies of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.backends.training_job.large_copies import Begun, LargeCopy
from trainyard.domain import errors

_MISSING = {"NoSuchKey": errors.BlobNotFound, "404": errors.BlobNotFound}


@dataclass(frozen=True)
class Found:
    """One object; `path` is below the directory."""

    path: str
    bytes: int


class S3Directory:
    """The objects below one prefix, which ends with a slash."""

    def __init__(self, s3: Any, bucket: str, prefix: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix

    def files(self) -> Iterator[Found]:
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix}
        while True:
            with translated("list a run's directory"):
                answer = self._s3.list_objects_v2(**request)
            for entry in answer.get("Contents", []):
                path = entry["Key"].removeprefix(self._prefix)
                if path and not path.endswith("/"):
                    yield Found(path, int(entry["Size"]))
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    def read(self, path: str) -> bytes:
        """Raises errors.BlobNotFound."""
        with translated(f"read {path} of a run's directory", _MISSING):
            answer: Mapping[str, Any] = self._s3.get_object(
                Bucket=self._bucket, Key=self._prefix + path
            )
            body: bytes = answer["Body"].read()
        return body

    def write(self, path: str, body: bytes) -> None:
        with translated(f"write {path} of a directory"):
            self._s3.put_object(Bucket=self._bucket, Key=self._prefix + path, Body=body)

    def copy(self, path: str, key: str) -> str:
        """S3 copies the object itself, and says the SHA-256 of what it wrote, in base64.

        Raises errors.BlobNotFound.
        """
        with translated(f"copy {path} of a run's directory", _MISSING):
            answer = self._s3.copy_object(
                Bucket=self._bucket,
                Key=key,
                CopySource={"Bucket": self._bucket, "Key": self._prefix + path},
                ChecksumAlgorithm="SHA256",
            )
        return str(answer["CopyObjectResult"].get("ChecksumSHA256") or "")

    def large_copy(self, path: str, key: str, begun: Begun | None) -> LargeCopy:
        """Of an object that S3 does not copy in one piece."""
        known = begun or Begun(upload_id="")
        return LargeCopy(self._s3, self._bucket, self._prefix + path, key, known)
