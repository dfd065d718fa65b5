"""Facts of jobs whose nodes come with them, and of what runs saved."""

from typing import Literal

from trainyard_contracts.events import Fact

#: completed: the program ended well everywhere. failed: it did not. host-lost: a node, or AWS
#: itself, failed. no-capacity: there were no nodes. refused: what the job asks for is wrong.
#: out-of-time: it reached a limit of its own. stopped: somebody stopped it.
JobEnd = Literal[
    "completed", "failed", "host-lost", "no-capacity", "refused", "out-of-time", "stopped"
]


class JobStage(Fact):
    """The backend says how far the job of an attempt is, where a job has stages there."""

    run_id: str
    attempt: int
    job_id: str = ""
    words: str = ""
    #: AWS has no nodes for it yet.
    lacks: bool = False


class JobEnded(Fact):
    """The backend says that the job of an attempt is over, and how, in its own words, too.

    After it nothing of the job runs. Its nodes went with it.
    """

    run_id: str
    attempt: int
    job_id: str = ""
    how: JobEnd = "failed"
    reason: str = ""


class UnsavedRun(Fact):
    """This generation of the cluster holds the only copy of the run's checkpoints."""

    run_id: str
    generation: int | None = None


class SavedRun(Fact):
    """What UnsavedRun said is over: a verified export holds them."""

    run_id: str
    generation: int | None = None
