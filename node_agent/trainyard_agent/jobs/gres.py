"""Devices as Slurm knows them (GRES).

An exclusive job has them all, but its step only those that the job asked for by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_COUNT = re.compile(r"([0-9]+)([KMGTP]?)")
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
#: Shares of a GPU: Slurm refuses a job that asks for them and for the whole GPU.
_SHARES = frozenset({"mps", "shard"})


def counts(gres: str) -> dict[str, int]:
    """How many of each there are on a node, by name: `gpu:h100:8(S:0-1),nic:2` has 8 and 2.

    What is not consumed is left out.
    """
    found: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *kinds = entry.split(":")
        count = _COUNT.fullmatch(kinds[-1]) if kinds else None
        if name and name not in _SHARES and "no_consume" not in kinds:
            found[name] = found.get(name, 0) + (int(count[1]) * _FACTORS[count[2]] if count else 1)
    return {name: count for name, count in found.items() if count}


def every(listed: Collection[str]) -> str:
    """What sbatch's --gres asks for, given what Slurm lists of each node.

    All that every one of them has; '' if that is nothing.
    """
    have = [counts(gres) for gres in listed]
    names = sorted(set.intersection(*map(set, have))) if have else []
    return ",".join(f"{name}:{min(one[name] for one in have)}" for name in names)
