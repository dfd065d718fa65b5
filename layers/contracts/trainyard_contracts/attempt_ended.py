"""What agents report of an attempt's end."""

from typing import Literal

from pydantic import Field

from .event_bases import RunEvent
from .node_evidence import NodeEvidence


class AttemptEnded(RunEvent):
    """The attempt's job left the scheduler, for whatever reason."""

    job_id: str
    outcome: Literal["succeeded", "failed", "cancelled"]
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = Field(
        default=None, description="last line of the Python traceback, e.g. 'ValueError: bad batch'"
    )
    error_kind: (
        Literal["python-error", "signal", "out-of-memory", "node", "checkpoint", "unknown"] | None
    ) = None
    exception: str | None = Field(
        default=None, description="class of the program's error, e.g. 'ModuleNotFoundError'"
    )
    lasting: bool = Field(
        default=False,
        description="the error is in the program, its arguments or what all nodes lack: another "
        "attempt would meet it again",
    )
    memory: Literal["host", "device"] | None = Field(
        default=None, description="which ran out, if error_kind is out-of-memory and it is known"
    )
    traceback: str = Field(
        default="", description="of the process that failed first, the program's own frames only"
    )
    remark: str = Field(default="", description="what a person should know of a good end")
    failed_node: str | None = Field(
        default=None, description="Slurm node where the first process failed"
    )
    last_step: int | None = None
    last_loss: float | None = Field(default=None, description="that of the last step")
    step_source: str = Field(
        default="program",
        description="who said the last step; one that was read elsewhere may be older than the end",
    )
    never_ran: bool = Field(
        default=False,
        description="nothing of the job was started on any node: no launcher, and no log",
    )
    nodes: list[NodeEvidence] = Field(default_factory=list)
    log_tail: str = ""
