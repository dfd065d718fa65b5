"""Whole checkpoints, progress and a clean stop for any training program.

saved = trainyard_job.latest()
for step in range(saved.step + 1 if saved else 1, steps + 1):
    ...
    trainyard_job.report(step, loss=loss)
    if trainyard_job.due(step):
        with trainyard_job.checkpoint(step) as directory:
            torch.save(state, directory / "state.pt")
    if trainyard_job.should_stop():
        sys.exit(trainyard_job.STOPPED)
"""

from .api import adopt, checkpoint, due, final, latest, output_dir, report, should_stop
from .checkpoints.checkpoint import Saved
from .common.exits import STOPPED, CheckpointFailed, ConfigError, Fenced

__all__ = [
    "STOPPED",
    "CheckpointFailed",
    "ConfigError",
    "Fenced",
    "Saved",
    "adopt",
    "checkpoint",
    "due",
    "final",
    "latest",
    "output_dir",
    "report",
    "should_stop",
]
