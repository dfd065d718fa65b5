"""Which rank of how many this process is, whatever started it and with or without torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ..common.exits import ConfigError

#: Variables of launchers, the strongest first: torchrun's (also accelerate's and deepspeed's), Open
#: MPI's, and srun's.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True)
class Place:
    """Rank from 0 on, below the world's size."""

    rank: int = 0
    world_size: int = 1

    @classmethod
    def find(cls, environment: Mapping[str, str] | None = None) -> Place:
        """torch's process group where there is one, else what a launcher set, else one rank alone.

        Raises ConfigError.
        """
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return cls(int(distributed.get_rank()), int(distributed.get_world_size()))
        env = os.environ if environment is None else environment
        for rank, size in _VARIABLES:
            if env.get(rank) and env.get(size):
                return cls._of(rank, env[rank], size, env[size])
        return cls()

    @classmethod
    def _of(cls, rank_name: str, rank: str, size_name: str, size: str) -> Place:
        if not (rank.isdigit() and size.isdigit() and int(rank) < int(size)):
            raise ConfigError(
                f"{rank_name}: '{rank}' is no rank of {size_name}='{size}'; ranks count from 0"
            )
        return cls(int(rank), int(size))
