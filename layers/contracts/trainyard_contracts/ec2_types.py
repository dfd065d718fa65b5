"""What EC2 says of its instance types, as far as a spec can be judged by it before AWS is asked.

A type that is newer than our rows is not known here, and is judged by AWS alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from .ec2_type_rows import ROWS


class Ec2Type(NamedTuple):
    """One type. `accelerators` is their maker and number, such as 'nvidia 8'; '' without any."""

    name: str
    architecture: str
    vcpus: int
    accelerators: str
    local_disk: bool
    efa: bool

    @property
    def neuron(self) -> bool:
        """Whether AWS's own accelerators are in it: Trainium or Inferentia."""
        return self.accelerators.startswith("aws ")


def ec2_type(name: str) -> Ec2Type | None:
    """None for a type that the rows do not have."""
    return _table().get(name)


def known(names: Iterable[str]) -> list[Ec2Type]:
    """Those of them that the rows have."""
    return [found for found in map(ec2_type, names) if found is not None]


@cache
def _table() -> Mapping[str, Ec2Type]:
    types = map(_read, ROWS.split("\n")[1:-1])
    return {type_.name: type_ for type_ in types}


def _read(row: str) -> Ec2Type:
    """`row` is such as 'p5.48xlarge|x86_64|192|nvidia 8|disk|efa'."""
    name, architecture, vcpus, accelerators, disk, efa = row.split("|")
    return Ec2Type(name, architecture, int(vcpus), accelerators, disk == "disk", efa == "efa")
