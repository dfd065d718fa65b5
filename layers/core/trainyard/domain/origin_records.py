"""Where a run comes from: its code, its first checkpoint, its array, its approval."""

from datetime import datetime

from pydantic import Field

from trainyard.domain.record import Record
from trainyard_contracts.people import Person


class Code(Record):
    """An uploaded directory: the run's working directory, or data that it reads."""

    tree: str = Field(
        description="the id of the upload, as job.workdir names it; of job.git: made of its commit"
    )
    files: int
    bytes: int = Field(description="of the files")
    commit: str = Field(default="", description="of job.git")
    url: str = Field(default="", description="of job.git")
    ref: str = Field(default="", description="of job.git: what was asked for")
    kept: bool = Field(default=False, description="the run has its own copy, which does not expire")


class Start(Record):
    """The checkpoint of another run that this run begins with."""

    run_id: str
    path: str = Field(description="relative to that run's directory on the shared filesystem")
    step: int
    export: str = Field(
        default="", description="where its files lie in S3, if the run's nodes can read them there"
    )


class Asked(Record):
    """The approval that a life of a run waits for, as it was asked for when that life began."""

    id: str = Field(description="of the approval")
    because: str = Field(description="why it is needed, as a sentence")
    usd: float | None = Field(
        default=None, description="what the life may cost at most; null: the price is not known"
    )
    needed: int = Field(default=1, description="so many people have to approve it")
    expires_at: datetime
    argument_hash: str = Field(description="of what is approved: the run's spec")
    requester: Person | None = Field(
        default=None, description="who asked for this life; null: the run's owner"
    )


class ArrayMember(Record):
    """Which member of which array a run is."""

    id: str = Field(description="of the array")
    index: int = Field(description="from 0")
