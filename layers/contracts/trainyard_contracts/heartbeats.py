"""What a cluster's agent says every few seconds: samples of nodes, and steps of runs."""

from typing import Literal

from pydantic import AwareDatetime, Field

from .base import Lenient
from .event_bases import AgentEvent


class Gpu(Lenient):
    """One accelerator's sample."""

    index: int
    kind: Literal["nvidia", "neuron"]
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class NodeSample(Lenient):
    """One node's newest sample. Rates are per second over the sampling interval."""

    node: str
    instance_id: str
    role: str
    agent: Literal["linked", "silent", "unknown"] = "linked"
    scheduler: str = Field(default="unknown", description="Slurm's state of the node, lower case")
    at: AwareDatetime
    cpu_percent: float = Field(default=0, description="of all cores, 0 to 100")
    memory_used_bytes: int = 0
    memory_total_bytes: int = 0
    disk_used_percent: float = 0
    network_received_bytes_per_second: float = 0
    network_sent_bytes_per_second: float = 0
    gpus: list[Gpu] = Field(default_factory=list)


class RunSample(Lenient):
    """The newest step of a run's training."""

    run_id: str
    attempt: int
    job_state: str = ""
    pending_reason: str = Field(
        default="", description="why Slurm lets the job wait, in its own word; '' once it runs"
    )
    step: int | None = None
    loss: float | None = None


class OtherJobs(Lenient):
    """Jobs in Slurm's queue that are not Trainyard's: people's.

    Those that wait for a person (held) are left out.
    """

    running: int = Field(default=0, ge=0)
    queued: int = Field(default=0, ge=0)
    users: list[str] = Field(
        default_factory=list, max_length=100, description="some of their names"
    )


#: PutEvents takes 256 KB a request, names included; room is left for what is added on the way.
MOST_EVENT_BYTES = 200 * 1024


class ClusterHeartbeat(AgentEvent):
    """The controller agent's periodic report: latest samples of nodes, and every active run's step.

    A large cluster's samples come in several heartbeats of at most MOST_EVENT_BYTES, one right
    after the other.
    """

    nodes: list[NodeSample]
    runs: list[RunSample] = Field(default_factory=list)
    dropped_samples: int = 0
    part: int = Field(
        default=1, ge=1, description="which of the heartbeats of one look at the cluster this is"
    )
    parts: int = Field(default=1, ge=1, description="how many heartbeats hold that look")
    other_jobs: OtherJobs | None = Field(default=None, description="None: not known")
