"""Records and specs of filesystems, for tests that are about something else."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from trainyard.domain.filesystem_records import Filesystem
from trainyard_contracts.filesystems import FilesystemSpec

AT = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
SUBNET, GROUP = "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
REPOSITORY = {"source": "s3://my-archive/lab/"}


def filesystem_document(**more: Any) -> dict[str, Any]:
    """A spec as a client writes it; a field that is None is left out."""
    given = {
        "name": "lab",
        "subnetId": SUBNET,
        "securityGroupIds": [GROUP],
        "repository": REPOSITORY,
        **more,
    }
    return {name: value for name, value in given.items() if value is not None}


def filesystem_spec(**more: Any) -> FilesystemSpec:
    return FilesystemSpec.model_validate(filesystem_document(**more))


def filesystem(spec: FilesystemSpec | None = None, **more: Any) -> Filesystem:
    made = spec or filesystem_spec()
    return Filesystem(name=made.name, spec=made, created_at=AT, updated_at=AT, **more)
