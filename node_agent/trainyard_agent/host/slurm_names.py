"""Names of nodes as Slurm writes them: many in brackets."""

from __future__ import annotations

import re
from collections.abc import Collection

#: More nodes than this are named in Slurm's short form.
MOST_WHOLE_NAMES = 100


def expand(hosts: str) -> tuple[str, ...]:
    """Node names of Slurm's compressed list: `ip-10-0-0-[1-3,7],other`."""
    if hosts in ("", "(null)", "None"):
        return ()
    names: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", hosts):
        names.extend(_expand_one(part.strip(",")))
    return tuple(names)


def as_argument(names: Collection[str]) -> str:
    """Node names as Slurm's commands take them.

    An argument may have 128 KB: thousands fit in Slurm's own short form only.
    """
    return ",".join(names) if len(names) <= MOST_WHOLE_NAMES else compress(names)


def compress(names: Collection[str]) -> str:
    """The list that `expand` makes these names of, sorted.

    Node names of one subnet shrink to their last numbers.
    """
    groups: dict[str, list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = re.fullmatch(r"(.*?)(0|[1-9][0-9]*)", name)
        if match is None or "[" in name:
            plain.append(name)
        else:
            groups.setdefault(match[1], []).append(int(match[2]))
    return ",".join(
        [*plain, *(f"{prefix}{_ranges(sorted(numbers))}" for prefix, numbers in groups.items())]
    )


def _ranges(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return "[" + ",".join("-".join(map(str, run)) for run in runs) + "]"


def _expand_one(part: str) -> list[str]:
    match = re.match(r"^([^\[]*)\[([^\]]*)\](.*)$", part)
    if match is None:
        return [part] if part else []
    prefix, ranges, rest = match.groups()
    numbers = []
    for piece in ranges.split(","):
        low, _, high = piece.partition("-")
        numbers.extend([str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)])
    return [prefix + number + tail for number in numbers for tail in (_expand_one(rest) or [""])]


def number_of(job: str) -> int:
    """12 of 12_3; an id without a number comes first."""
    digits = re.match(r"\d+", job)
    return int(digits.group()) if digits else 0
