"""Addresses in S3: a bucket and a key in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_URI = re.compile(r"^s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+)$")


@dataclass(frozen=True)
class Location:
    """A bucket and a key (or a prefix) in it."""

    bucket: str
    key: str

    def under(self, name: str) -> Location:
        return Location(self.bucket, f"{self.key.rstrip('/')}/{name}")


def parse_uri(uri: str) -> Location:
    """Raises ValueError."""
    match = _URI.match(uri)
    if match is None or len(uri) > 1024:
        raise ValueError(f"{uri[:200]!r} is not an S3 address; it must look like s3://bucket/key")
    return Location(match.group(1), match.group(2))
