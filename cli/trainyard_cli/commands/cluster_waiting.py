"""Clusters by their names, and how commands wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from trainyard_sdk.client import Json

from ..context import Context
from ..problems import ApiProblem
from ..screen.waiting import Waiting

POLL_SECONDS = 1.0
ClusterName = Annotated[str, typer.Argument(metavar="CLUSTER", help="name of the cluster")]


def wait_for(
    context: Context,
    name: str,
    done: Callable[[Json | None], bool],
    timeout: int | None = None,
) -> Json | None:
    """Poll the cluster until it is done; None = there is none any more."""
    back = f"trainyard cluster show {name}"
    waiting = Waiting(f"cluster {name}", back, timeout, poll_seconds=POLL_SECONDS)
    return waiting.until(
        lambda: _cluster_or_none(context, name),
        done,
        lambda found: str((found or {}).get("status", "gone")),
    )


def _cluster_or_none(context: Context, name: str) -> Json | None:
    try:
        return context.client.cluster(name)
    except ApiProblem as problem:
        if problem.status == 404:
            return None
        raise
