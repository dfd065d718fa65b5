"""S3 with the rights of a job's role: what the role may not do, the job cannot either."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from trainyard_local.local_cloud import LocalCloud

#: AWS's name for the sessions of a job's role.
SESSION = "SageMaker"
PAGE = 1000
#: What boto3 raises for a request that S3 does not do.
Refused = (ClientError, BotoCoreError, Boto3Error)
#: Threads may share clients, but not make them in one session at once.
_making = threading.Lock()
_session = functools.cache(boto3.Session)


@dataclass(frozen=True)
class Location:
    """A prefix in a bucket; as an S3 URI, without a slash at its end."""

    bucket: str
    prefix: str

    @classmethod
    def of(cls, uri: str) -> Location:
        """From s3://bucket/prefix."""
        parts = urlsplit(uri)
        return cls(parts.netloc, parts.path.lstrip("/"))

    def below(self, name: str) -> str:
        """The key of a name below the prefix."""
        return f"{self.prefix.rstrip('/')}/{name}".lstrip("/")


class Objects:
    """A client under the role."""

    def __init__(self, cloud: LocalCloud, role: str) -> None:
        keys = cloud.access.environment(role, SESSION)
        with _making:
            self._client: Any = _session().client(
                "s3",
                endpoint_url=cloud.endpoint,
                region_name=cloud.region,
                aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
                aws_session_token=keys["AWS_SESSION_TOKEN"],
                config=Config(retries={"max_attempts": 2}, s3={"addressing_style": "path"}),
            )

    def keys(self, location: Location, at_most: int | None = None) -> Iterator[str]:
        """The keys that begin with the prefix, in S3's order. Raises Refused."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=location.bucket,
            Prefix=location.prefix,
            PaginationConfig={"MaxItems": at_most, "PageSize": at_most or PAGE},
        )
        for page in pages:
            yield from (entry["Key"] for entry in page.get("Contents") or [])

    def get(self, bucket: str, key: str, file: Path) -> None:
        """Copy one object into a file. Raises Refused."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._client.download_file(bucket, key, str(file))

    def put(self, file: Path, bucket: str, key: str) -> None:
        """Copy a file, as it is now, into an object. Raises Refused or OSError."""
        self._client.upload_file(str(file), bucket, key)


def words(error: Exception) -> str:
    """What S3 said, for a person."""
    if isinstance(error, ClientError):
        return str(error.response["Error"].get("Message") or error.response["Error"]["Code"])
    return str(error)
