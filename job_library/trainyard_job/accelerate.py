"""Makes the states of Hugging Face Accelerate whole checkpoints.

from trainyard_job.accelerate import load_state, save_state

step = load_state(accelerator)
...
if trainyard_job.due(step):
    save_state(accelerator, step)
"""

from __future__ import annotations

from typing import Any

from .api import current


def save_state(accelerator: Any, step: int, **options: Any) -> None:
    """`accelerator.save_state` as the checkpoint of this step: every rank calls it.

    `options` go to Accelerate. Raises as `trainyard_job.checkpoint` does.
    """
    _check(accelerator)
    with current().checkpoint(step, shared=True) as directory:
        accelerator.save_state(str(directory), **options)


def load_state(accelerator: Any, **options: Any) -> int:
    """Load the newest whole checkpoint by `accelerator.load_state`, after `prepare`; every rank
    calls it. Returns its step; 0 if there is none.

    Raises CheckpointFailed, Fenced, and what Accelerate raises.
    """
    _check(accelerator)
    saved = current().latest()
    if saved is None:
        return 0
    accelerator.load_state(str(saved.path), **options)
    return saved.step


def _check(accelerator: Any) -> None:
    if accelerator.project_configuration.automatic_checkpoint_naming:
        raise ValueError(
            "automatic_checkpoint_naming: Accelerate would write elsewhere than into the "
            "checkpoint; leave it out of the ProjectConfiguration"
        )
