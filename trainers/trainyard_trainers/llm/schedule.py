"""The learning rate of a step: linear warm-up, then half a cosine (Loshchilov and Hutter 2017) down
to a share of the peak.
"""

from __future__ import annotations

import math


def cosine(step: int, steps: int, warmup: int, last_share: float) -> float:
    """Share of the peak learning rate at `step` (from 0) of `steps`: `(step + 1) / warmup` first,
    `last_share` at the end.
    """
    if step < warmup:
        return (step + 1) / warmup
    through = min(1.0, (step - warmup) / max(1, steps - warmup))
    return last_share + (1.0 - last_share) * 0.5 * (1.0 + math.cos(math.pi * through))
