"""Which node is meant, and whether it is in use."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard_sdk.client import Json

from ..context import Context
from ..screen.output import confirmed, may_ask

NodeGiven = Annotated[
    str,
    typer.Argument(
        metavar="NODE", help="instance id or node name, from: trainyard node ls CLUSTER"
    ),
]


def _has_job(node: Json) -> bool:
    return str(node.get("scheduler", "")).lower().startswith(("alloc", "mix", "comp"))


def ask_if_it_trains(
    context: Context, cluster: str, instance: str, verb: str, *, yes: bool
) -> None:
    """A node that works for a run loses what was trained since the newest checkpoint."""
    if yes or context.json or not may_ask():
        return
    for node in context.client.nodes(cluster):
        if node["instanceId"] == instance and _has_job(node):
            question = f"{node.get('name') or instance} runs a job now. {verb} it?"
            confirmed(question, yes=yes, as_json=context.json)


def instance_id_of(context: Context, cluster: str, given: str) -> str:
    """The instance id of a node that is given by name or by id.

    The API knows nodes by instance id only, but people copy the name, which is first in the list.
    The API refuses what is neither.
    """
    if given.startswith("i-"):
        return given
    return next(
        (
            str(node["instanceId"])
            for node in context.client.nodes(cluster)
            if node.get("name") == given
        ),
        given,
    )
