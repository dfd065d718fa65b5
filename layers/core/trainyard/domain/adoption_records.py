"""A cluster that others made."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.record import Record


class AdoptedNode(Record):
    """How far the agent is on one node of an adopted cluster.

    It is stored before the node is touched, so that a release knows of every node that may have
    anything of ours.
    """

    group: str
    state: Literal["asked", "installing", "installed", "failed"] = "asked"
    at: datetime = Field(description="when the node was last asked")
    tries: int = Field(default=0, description="how many of them failed, one after the other")
    reason: str = Field(default="", description="why the newest one failed, or could not be undone")


class Adoption(Record):
    """Of a cluster that others made. It is never deleted by us, only released."""

    replace_nodes: bool = Field(description="its nodes may be replaced and rebooted by us")
    nodes: dict[str, AdoptedNode] = Field(
        default_factory=dict, description="by instance id: those that may have anything of ours"
    )
    lacking: int | None = Field(
        default=None, description="nodes that run and still wait for the agent; null: not known yet"
    )
    left: list[str] = Field(
        default_factory=list, description="what a release had to leave behind, in sentences"
    )
