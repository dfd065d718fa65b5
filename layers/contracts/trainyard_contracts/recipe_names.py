"""The recipes that a job may name; written by scripts/schemas.py from the files in trainyard_trainers/launchers."""

from __future__ import annotations

from typing import Literal

RecipeName = Literal["accelerate", "command", "deepspeed", "mpirun", "neuron", "torchrun"]
