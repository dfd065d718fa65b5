"""The order of training samples: one endless stream, whose position is one number however many
ranks read it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..common.config import ConfigError


class Stream:
    """Passes over `length` samples without end, each in an order of its own (the order of torch's
    DistributedSampler with `seed`).

    Every sample comes exactly once a pass; a batch may begin in one pass and end in the next.
    `position` counts the samples that all ranks together have taken since the start, so a run may
    go on with any number of ranks and neither repeats nor skips a sample.
    """

    def __init__(self, length: int, seed: int, *, shuffle: bool = True) -> None:
        if length < 1:
            raise ConfigError("data: it holds no sample")
        self.length, self.seed, self.shuffle = length, seed, shuffle
        self.position = 0
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.int64)

    def state(self) -> dict[str, int]:
        """What `restore` takes."""
        return {"position": self.position, "seed": self.seed}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on at a checkpoint's position.

        Raises ConfigError for a checkpoint of another seed, which has another order.
        """
        if (seed := state.get("seed", self.seed)) != self.seed:
            raise ConfigError(
                f"seed: the checkpoint was trained with {seed}, this run has {self.seed}; use "
                f"{seed}, or start another run"
            )
        self.position = int(state["position"])

    @property
    def epoch(self) -> int:
        """The pass that the next sample belongs to, from 0."""
        return self.position // self.length

    def take(self, count: int) -> Tensor:
        """Indices of the next `count` samples of all ranks, shape (count,)."""
        taken: list[Tensor] = []
        while count > 0:
            order, start = self._pass(self.epoch), self.position % self.length
            taken.append(order[start : start + count])
            self.position += len(taken[-1])
            count -= len(taken[-1])
        return taken[0] if len(taken) == 1 else torch.cat(taken)

    def share(self, count: int, rank: int, world_size: int) -> Tensor:
        """This rank's part, shape (count,), of the next `count * world_size` samples, dealt out in
        turn.
        """
        return self.take(count * world_size)[rank::world_size]

    def _pass(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self.seed + epoch)
            self._order = (
                torch.randperm(self.length, generator=generator)
                if self.shuffle
                else torch.arange(self.length)
            )
            self._epoch = epoch
        return self._order


def check_batch(field: str, per_rank: int, world_size: int, samples: int) -> None:
    """Refuse more samples a step than there are.

    Raises ConfigError that names `field` and what would work.
    """
    if per_rank * world_size > samples:
        most = samples // world_size
        advice = f"use at most {most}" if most else f"use at most {samples} ranks"
        raise ConfigError(
            f"{field}: {per_rank} a rank on {world_size} ranks need {per_rank * world_size} "
            f"samples a step, but there are {samples}; {advice}"
        )
