"""Recipe `accelerate`: a program written for Hugging Face Accelerate, started by torchrun's agent
with Accelerate's variables.

`accelerate launch` itself is not used: with `--cpu` it starts one process whatever it is asked for
(accelerate 1.15), and says nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...common.failure import Failure
from .. import own_log, program
from ..allocation import Allocation

#: What a node with an accelerator has in /dev.
_DEVICES = ("nvidia0", "neuron0", "kfd")


class WrongWorldSize(RuntimeError):
    """Accelerate did not take up the processes of the job; each would train a model of its own."""


def run(allocation: Allocation) -> Failure:
    """Run this node's workers to their end."""
    from .. import elastic  # here, so that a plain program never pays for it

    for name, value in environment(
        has_accelerator=any(Path("/dev", device).exists() for device in _DEVICES)
    ).items():
        os.environ.setdefault(name, value)
    return elastic.run(elastic.Placement.of(allocation), allocation.job.command(), entry=__name__)


def environment(*, has_accelerator: bool) -> dict[str, str]:
    """Without ACCELERATE_USE_CPU Accelerate takes no notice of the other processes on a node that
    has no accelerator.
    """
    return {} if has_accelerator else {"ACCELERATE_USE_CPU": "true"}


# -- in each worker ------------------------------------------------------------------------------
def main(command: Sequence[str]) -> None:
    """Run the program, which fails at once where Accelerate would train without its peers."""
    own_log.take()
    state = importlib.import_module("accelerate.state")
    state.PartialState.__init__ = checked(
        state.PartialState.__init__, int(os.environ["WORLD_SIZE"])
    )
    program.run(command)


def checked(initialise: Callable[..., None], world_size: int) -> Callable[..., None]:
    """PartialState's __init__, which raises WrongWorldSize where another number of processes came
    together.
    """

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        initialise(self, *arguments, **options)
        if self.num_processes != world_size:
            raise WrongWorldSize(
                f"Accelerate formed {self.num_processes} of {world_size} processes "
                f"({self.distributed_type}, device {self.device}): each "
                "would train a model of its own. Where there is no accelerator, do not unset "
                "ACCELERATE_USE_CPU; where there is one, is torch "
                "built for it?"
            )

    return init


if __name__ == "__main__":
    main(sys.argv[1:])
