"""What clients put into the data bucket, and what lies in buckets of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.trees import Pack


@dataclass(frozen=True)
class PutRequest:
    """One PUT that S3 takes: of these very bytes, with all of these headers, until it expires."""

    url: str
    headers: Mapping[str, str]


class Uploads(Protocol):
    """Trees and packs that clients themselves put into the data bucket."""

    def held(self, part: Pack) -> datetime | None:
        """When these very bytes were uploaded; None if they are not there."""
        ...

    def request(self, part: Pack, *, seconds: int) -> PutRequest: ...

    def copy(self, source: str, key: str) -> bool:
        """Copy an object of the data bucket; False if there is no such object."""
        ...


class Sources(Protocol):
    """Objects that runs read, in buckets that are not ours."""

    def look(self, source: S3Prefix) -> Literal["there", "empty", "no-bucket", "unknown"]:
        """Whether there is any; 'unknown' where we may not see it."""
        ...
