"""What the parts of Trainyard's local cloud share, besides what any local cloud has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sam_on_moto.cloud import Cloud, Naming
from sam_on_moto.moto_patches.supported import Operations
from trainyard_local.operations import OPERATIONS
from trainyard_local.quirks import Quirks

if TYPE_CHECKING:
    from sam_on_moto.iam.access import Principal

Application = Callable[..., Iterable[bytes]]


NAMING = Naming(
    stack="trainyard",
    tag="TRAINYARD_LOCAL",
    admin_prefix="/_trainyard/",
    admin_header="x-trainyard-token",
)


@dataclass(frozen=True)
class LocalCloud(Cloud):
    """One running local cloud with clusters, sessions and quirks."""

    naming: Naming = NAMING
    operations: Operations = field(repr=False, default_factory=lambda: OPERATIONS)
    session_port: int = 0
    """Where sessions are served; 0 takes a free one."""
    quirks: Quirks = field(repr=False, default_factory=Quirks)
    """Ways of AWS that are played now and that nobody expects."""


def forbids(cloud: LocalCloud, principal: Principal, action: str) -> bool:
    """Whether a quirk refuses this, whatever the policies say."""
    a_node = "/i-" in principal.arn
    return (
        a_node and action.startswith("events:") and "node-roles-may-not-put-events" in cloud.quirks
    )


def quirky_heads(cloud: LocalCloud, moto: Application) -> Application:
    """moto, whose answers to HEAD lack the checksum while a quirk says so."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "HEAD" and "heads-have-no-checksum" in cloud.quirks:
            return moto(environ, _without_checksum(start_response))
        return moto(environ, start_response)

    return answer


def _without_checksum(start_response: Callable[..., Any]) -> Callable[..., Any]:
    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        return start_response(
            status,
            [pair for pair in headers if not pair[0].lower().startswith("x-amz-checksum-")],
            *more,
        )

    return start
