"""The recipes that a job may name.

scripts/schemas.py writes them from the files in trainyard_trainers/launch/launchers.
"""

from __future__ import annotations

from typing import Literal

RecipeName = Literal[
    "accelerate",
    "command",
    "deepspeed",
    "mpirun",
    "neuron",
    "torchrun",
]
