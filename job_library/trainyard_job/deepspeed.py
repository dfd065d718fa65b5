"""Makes the directories of a DeepSpeed engine whole checkpoints.

from trainyard_job import deepspeed as whole

step, client_state = whole.load_checkpoint(engine)
...
if trainyard_job.due(step):
    whole.save_checkpoint(engine, step, client_state={...})
"""

from __future__ import annotations

from typing import Any

from .api import current

#: The directory within a checkpoint; DeepSpeed calls it the tag.
TAG = "deepspeed"


def save_checkpoint(engine: Any, step: int, **options: Any) -> None:
    """`engine.save_checkpoint` as the checkpoint of this step: every rank calls it.

    `options` go to DeepSpeed (`client_state`, ...). Raises as `trainyard_job.checkpoint` does, and
    ValueError for a checkpoint engine that goes on writing after the call.
    """
    if engine.checkpoint_engine.is_decoupled():
        raise ValueError(
            f"checkpoint engine {type(engine.checkpoint_engine).__name__}: it writes on after the "
            "call, so nobody knows when the checkpoint is whole; take another one in DeepSpeed's "
            "configuration ('checkpoint')"
        )
    with current().checkpoint(step, shared=True) as directory:
        engine.save_checkpoint(str(directory), tag=TAG, **{"save_latest": False, **options})


def load_checkpoint(engine: Any, **options: Any) -> tuple[int, dict[str, Any]]:
    """Load the newest whole checkpoint by `engine.load_checkpoint`; every rank calls it.

    Returns its step and its client state; (0, {}) if there is none. Raises CheckpointFailed,
    Fenced, and what DeepSpeed raises.
    """
    saved = current().latest()
    if saved is None:
        return 0, {}
    _, client_state = engine.load_checkpoint(str(saved.path), tag=TAG, **options)
    return saved.step, dict(client_state or {})
