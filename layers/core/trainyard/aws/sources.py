"""Looks whether there are objects that a run wants to read, in buckets that are not ours."""

from __future__ import annotations

from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError

from trainyard.aws.refusals import code_of
from trainyard_contracts.inputs import S3Prefix


class S3Sources:
    """The port `Sources`."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3

    def look(self, source: S3Prefix) -> Literal["there", "empty", "no-bucket", "unknown"]:
        try:
            found = self._s3.list_objects_v2(Bucket=source.bucket, Prefix=source.prefix, MaxKeys=1)
        except ClientError as refusal:
            return "no-bucket" if code_of(refusal) == "NoSuchBucket" else "unknown"
        except BotoCoreError:
            return "unknown"
        return "there" if found.get("KeyCount") else "empty"
