"""What AWS tells of a filesystem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trainyard.domain.filesystems import Life


@dataclass(frozen=True)
class SeenFilesystem:
    """FSx's own view of a filesystem; `said` is its own word for the state, to be shown only."""

    fsx_id: str
    arn: str
    life: Life
    said: str
    dns_name: str = ""
    mount_name: str = ""
    vpc: str = ""
    #: One of those from which it is reached; a filesystem lies in its zone.
    subnet: str = ""
    failure_message: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None


@dataclass(frozen=True)
class SeenLink:
    """FSx's own view of a link to a repository."""

    life: Life
    said: str
    failure_message: str = ""
