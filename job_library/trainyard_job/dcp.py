"""Makes the directories of torch.distributed.checkpoint (DCP) whole checkpoints.

from trainyard_job import dcp

state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 0}
step = dcp.load(state)
...
if trainyard_job.due(step):
    dcp.save(state, step)
"""

from __future__ import annotations

from typing import Any

from .api import current


def save(state: dict[str, Any], step: int, **options: Any) -> None:
    """`torch.distributed.checkpoint.save` as the checkpoint of this step: every rank calls it.

    `options` go to torch, but `checkpoint_id` and a `storage_writer` are ours. Raises as
    `trainyard_job.checkpoint` does, and what torch raises.
    """
    from torch.distributed.checkpoint import state_dict_saver

    _check(options, "storage_writer")
    with current().checkpoint(step) as directory:
        state_dict_saver.save(state, checkpoint_id=directory, **options)


def load(state: dict[str, Any], **options: Any) -> int:
    """Load the newest whole checkpoint into `state`, in place, also on another number of ranks.

    Every rank calls it. Returns its step; 0 if there is none, and then `state` is as it was.
    Raises CheckpointFailed, Fenced, and what torch raises.
    """
    from torch.distributed.checkpoint import state_dict_loader

    _check(options, "storage_reader")
    saved = current().latest()
    if saved is None:
        return 0
    state_dict_loader.load(state, checkpoint_id=saved.path, **options)
    return saved.step


def _check(options: dict[str, Any], writer: str) -> None:
    for name in ("checkpoint_id", writer):
        if name in options:
            raise ValueError(f"{name}: the checkpoint lies where Trainyard says; leave it out")
