"""What every part of a local cloud shares: where it lives, and what parts ask of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sam_on_moto.iam.access import Access
from sam_on_moto.inside import calls
from sam_on_moto.inside.logs import LogWriter
from sam_on_moto.inside.place import ACCOUNT_ID, REGION
from sam_on_moto.moto_patches.supported import OPERATIONS, Operations
from sam_on_moto.wire.messages import Request, Response

Handler = Callable[[Request], Response]


class Refused(Exception):
    """What was asked for cannot be done here; the message says what and why."""


@dataclass(frozen=True)
class Naming:
    """What users of one local cloud see by name; a product on it gives its own."""

    stack: str = "local"
    tag: str = "SAM_ON_MOTO"
    """The variable that holds the state directory in the environment of every process."""
    admin_prefix: str = "/_local/"
    """Begins with /_, which no bucket's name does."""
    admin_header: str = "x-local-token"


@dataclass(frozen=True)
class Cloud:
    """One local cloud before its parts are made; each of them gets it."""

    region: ClassVar[str] = REGION
    account_id: ClassVar[str] = ACCOUNT_ID

    state_dir: Path
    port: int
    naming: Naming = field(default_factory=Naming)
    access: Access = field(repr=False, default_factory=Access)
    """The keys that it issues, and what their holders may do."""
    logs: LogWriter = field(repr=False, default_factory=LogWriter)
    put_event: Callable[[str, str, Mapping[str, Any], list[str]], None] = field(
        repr=False, default=calls.put_event
    )
    """put_event(source, detail type, detail, resources): AWS's own event on the default bus."""
    read_prefix: Callable[[str, str], dict[str, bytes]] = field(
        repr=False, default=calls.read_prefix
    )
    """read_prefix(bucket, prefix) -> relative key -> body, straight from moto's S3.

    Raises FileNotFoundError.
    """
    operations: Operations = field(repr=False, default_factory=lambda: OPERATIONS)
    """What is done of AWS; everything else is refused."""
    shortcuts: dict[tuple[str, str], Handler] = field(default_factory=dict)
    """(signing name, X-Amz-Target) -> what answers such requests without moto's own way there."""
    services: dict[str, Handler] = field(default_factory=dict)
    """signing name -> what answers that service's requests, in the place of moto."""
    paths: dict[str, Handler] = field(default_factory=dict)
    """Beginning of a path, with /_ as the admin calls have it -> what answers requests there."""
    on_shutdown: list[Callable[[], None]] = field(default_factory=list)
    """Called once when the server ends in good order."""
    reporters: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """What each part adds to the admin call `status` under its name; anything json.dumps takes."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"
