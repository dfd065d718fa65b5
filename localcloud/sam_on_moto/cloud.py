"""What every part of a local cloud shares: where it lives, and what parts ask of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sam_on_moto.moto_patches.supported import OPERATIONS, Operations
from sam_on_moto.wire.messages import Request, Response

if TYPE_CHECKING:
    from sam_on_moto.bus.schedules import Schedules
    from sam_on_moto.functions.registry import Functions
    from sam_on_moto.http.gateway import Gateway
    from sam_on_moto.iam.access import Access


Handler = Callable[[Request], Response]


@dataclass(frozen=True)
class Naming:
    """What users of one local cloud see by name; a product on it gives its own."""

    stack: str = "local"
    tag: str = "SAM_ON_MOTO"
    """The variable that holds the state directory in the environment of every process."""
    admin_prefix: str = "/_local/"
    """Begins with /_, which no bucket's name does."""
    admin_header: str = "x-local-token"


#: The server fills in what has this default, before any part is installed.
_LATER: Any = None


@dataclass
class Cloud:
    """One running local cloud."""

    state_dir: Path
    port: int
    naming: Naming = field(default_factory=Naming)
    region: str = "us-east-1"
    account_id: str = "123456789012"
    put_event: Callable[[str, str, Mapping[str, Any], list[str]], None] = field(
        repr=False, default=_LATER
    )
    """put_event(source, detail type, detail, resources): AWS's own event on the default bus."""
    write_log: Callable[[str, str, list[str]], None] = field(repr=False, default=_LATER)
    """write_log(log group, stream, lines): CloudWatch Logs, creating both."""
    credentials: Callable[[str, str], dict[str, str]] = field(repr=False, default=_LATER)
    """credentials(role ARN, session name) -> the role's keys, by the names of their variables.

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
    """
    may_assume: Callable[[str, str], bool] = field(repr=False, default=lambda role, service: True)
    """may_assume(role ARN, service principal): whether the service may act under the role now."""
    read_prefix: Callable[[str, str], dict[str, bytes]] = field(repr=False, default=_LATER)
    """read_prefix(bucket, prefix) -> relative key -> body, straight from moto's S3.

    Raises FileNotFoundError.
    """
    operations: Operations = field(repr=False, default_factory=lambda: OPERATIONS)
    """What is done of AWS; everything else is refused."""
    shortcuts: dict[tuple[str, str], Handler] = field(default_factory=dict)
    """(signing name, X-Amz-Target) -> what answers such requests without moto's own way there."""
    services: dict[str, Handler] = field(default_factory=dict)
    """signing name -> what answers that service's requests, in the place of moto."""
    on_shutdown: list[Callable[[], None]] = field(default_factory=list)
    """Called once when the server ends in good order."""
    reporters: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """What each part adds to the admin call `status` under its name; anything json.dumps takes."""
    access: Access = field(repr=False, default=_LATER)
    functions: Functions = field(repr=False, default=_LATER)
    gateway: Gateway = field(repr=False, default=_LATER)
    schedules: Schedules = field(repr=False, default=_LATER)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"
