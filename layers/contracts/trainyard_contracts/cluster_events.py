"""What agents report of a whole cluster: that it is ready, and that its nodes change."""

from pydantic import Field

from .event_bases import AgentEvent


class ClusterReady(AgentEvent):
    """As many workers as jobs may use joined Slurm, their agents linked; spares may follow."""

    nodes: list[str]


class NodesChanged(AgentEvent):
    """Slurm's list of nodes has changed: some were added, removed, or replaced by new names."""

    nodes: list[str] = Field(description="every node that Slurm knows now")
    added: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)
    partitions: dict[str, int] = Field(
        default_factory=dict, description="how many of them each partition has"
    )
