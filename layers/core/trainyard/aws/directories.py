"""The directories of training jobs' runs in the data bucket: which there are, and their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard.outside.directories import Directory
from trainyard_contracts import places

#: What an export takes of a directory. SageMaker's own uploads (/opt/ml/model) lie beside these.
PARTS = (places.CHECKPOINTS, places.WATCHED, places.FINAL, places.OUTPUT, places.WORK)
#: DeleteObjects takes no more.
_AT_ONCE = 1000


class S3Directories:
    """The port `Directories`."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    def clusters(self) -> list[str]:
        return list(self._below(f"{places.DIRECTORIES}/"))

    def of(self, cluster: str) -> list[Directory]:
        return [Directory(cluster, run) for run in self._below(places.directories_prefix(cluster))]

    def files(self, directory: Directory) -> dict[str, int]:
        prefix = places.directory_prefix(directory.cluster, directory.run_id)
        found = {
            str(entry["Key"]).removeprefix(prefix): int(entry["Size"])
            for page in self._pages(Prefix=prefix)
            for entry in page.get("Contents") or []
        }
        return {path: size for path, size in found.items() if _exportable(path)}

    def delete(self, directory: Directory, paths: Sequence[str]) -> None:
        prefix = places.directory_prefix(directory.cluster, directory.run_id)
        for begin in range(0, len(paths), _AT_ONCE):
            self._delete([prefix + path for path in paths[begin : begin + _AT_ONCE]])

    def _delete(self, keys: list[str]) -> None:
        with translated("delete objects of a run's directory"):
            answer = self._s3.delete_objects(
                Bucket=self._bucket,
                Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True},
            )
        for failed in answer.get("Errors") or []:
            words = f"AWS did not delete s3://{self._bucket}/{failed['Key']}: {failed['Code']}"
            raise errors.RetryableError(words)

    def _below(self, prefix: str) -> Iterator[str]:
        """Names directly below a prefix that ends with a slash."""
        for page in self._pages(Prefix=prefix, Delimiter="/"):
            for entry in page.get("CommonPrefixes") or []:
                yield str(entry["Prefix"]).removeprefix(prefix).rstrip("/")

    def _pages(self, **request: Any) -> Iterator[Any]:
        while True:
            with translated("list directories of runs"):
                answer = self._s3.list_objects_v2(Bucket=self._bucket, **request)
            yield answer
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]


def _exportable(path: str) -> bool:
    return path.partition("/")[0] in PARTS and not path.endswith("/")
