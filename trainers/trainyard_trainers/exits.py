"""The name by which programs of users import `trainyard_job.common.exits`: it stays for them."""

from trainyard_job.common.exits import (
    CHECKPOINT_FAILED,
    COMPLETE,
    FENCED,
    MISCONFIGURED,
    STOPPED,
    CheckpointFailed,
    Fenced,
)

__all__ = [
    "CHECKPOINT_FAILED",
    "COMPLETE",
    "FENCED",
    "MISCONFIGURED",
    "STOPPED",
    "CheckpointFailed",
    "Fenced",
]
