"""Where a run comes from: its code, its array, and whose approval was asked."""

from datetime import datetime

from pydantic import Field

from trainyard.http.views import View


class Code(View):
    """The directory that becomes the run's working directory."""

    tree: str = Field(
        description="job.workdir: the id of the upload; of job.git: made of its commit"
    )
    files: int
    bytes: int = Field(description="of the files")
    commit: str = Field(description="that every attempt runs; of job.git")
    url: str = Field(description="of job.git")
    ref: str = Field(description="of job.git: what was asked for")


class ArrayMember(View):
    """Which member of which array a run is."""

    id: str = Field(description="of the array")
    index: int = Field(description="from 0")


class ApprovalAsked(View):
    """The approval that this life of a run waits for, or went on with."""

    id: str
    because: str = Field(description="why it is needed")
    usd: float | None = Field(description="what it may cost at most; null: the price is not known")
    needed: int = Field(description="so many people have to approve it")
    expires_at: datetime = Field(description="nobody can approve it after that")
