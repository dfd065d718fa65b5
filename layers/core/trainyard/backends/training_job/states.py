"""A training job's words for its state, translated into the port's, here and nowhere else.

A job is the cluster of its own nodes: it is made while AWS gets them, and gone when it is over.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.domain.states import BackendStatus, NodeState

_MADE, _UP, _CHANGING = BackendStatus.CREATING, BackendStatus.IN_SERVICE, BackendStatus.CHANGING
_FAILED, _GOING = BackendStatus.FAILED, BackendStatus.DELETING

#: What a job's status says where its secondary status says nothing more. A job that is in progress
#: may be at any point of it.
JOBS: Mapping[str, BackendStatus] = {
    "InProgress": BackendStatus.UNKNOWN,
    "Completed": _GOING,
    "Failed": _FAILED,
    "Stopping": _GOING,
    "Stopped": _GOING,
    "Deleting": _GOING,
}
#: The port's word and a person's for each secondary status.
STAGES: Mapping[str, tuple[BackendStatus, str]] = {
    "Starting": (_MADE, "AWS starts the job"),
    "Pending": (_MADE, "the job waits for capacity"),
    "LaunchingMLInstances": (_MADE, "AWS launches the nodes"),
    "PreparingTrainingStack": (_MADE, "AWS prepares the nodes"),
    "DownloadingTrainingImage": (_MADE, "the nodes load the image"),
    "Downloading": (_MADE, "the nodes load the data"),
    "Training": (_UP, "the program runs"),
    "Uploading": (_UP, "the program has ended, and its model goes to S3"),
    "Updating": (_CHANGING, "AWS changes the job"),
    "Restarting": (_CHANGING, "AWS restarts the job"),
    "Interrupted": (_CHANGING, "AWS took the spot nodes back, and the job waits for others"),
    "Stopping": (_GOING, "the job is being stopped"),
    "Stopped": (_GOING, "the job was stopped"),
    "Completed": (_GOING, "the job is complete"),
    "MaxRuntimeExceeded": (_GOING, "the job was stopped: it ran for longer than maxRuntimeSeconds"),
    "MaxWaitTimeExceeded": (
        _GOING,
        "the job was stopped: with its waits it took longer than spot.maxWaitSeconds",
    ),
    "Failed": (_FAILED, "the job failed"),
}
#: Nothing follows these.
OVER = frozenset({"Completed", "Failed", "Stopped"})
_NODES: Mapping[BackendStatus, NodeState] = {
    _MADE: NodeState.PENDING,
    _UP: NodeState.RUNNING,
    _CHANGING: NodeState.UPDATING,
    _FAILED: NodeState.FAILURE,
    _GOING: NodeState.SHUTTING_DOWN,
}


def cluster_status(status: str, secondary: str = "") -> BackendStatus:
    """UNKNOWN for words that AWS added since. The end of a job counts before its stage."""
    if status != "InProgress":
        return JOBS.get(status, BackendStatus.UNKNOWN)
    return STAGES.get(secondary, (BackendStatus.UNKNOWN, ""))[0]


def node_state(status: str, secondary: str = "") -> NodeState:
    """The state of all nodes of the job: AWS tells of none alone."""
    return _NODES.get(cluster_status(status, secondary), NodeState.UNKNOWN)


def is_over(status: str) -> bool:
    return status in OVER


def words(status: str, secondary: str = "", message: str = "") -> str:
    """A sentence for people; `message` is AWS's own, of the transition or of the failure."""
    known = STAGES.get(secondary) or STAGES.get(status)
    said = known[1] if known else f"AWS says {secondary or status or 'nothing'} of the job"
    return f"{said}: {message}" if message else said
