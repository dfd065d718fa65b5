"""What EC2 says of its instance types, as far as a spec can be judged by it before AWS is asked.

`ec2_types.json` holds what DescribeInstanceTypes answered; `source` in it says when and to whom. A
type that is newer than the file is not known here and is judged by AWS alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

_FILE = "ec2_types.json"


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
    """None for a type that the file does not know."""
    return _table().get(name)


def known(names: Iterable[str]) -> list[Ec2Type]:
    """Those of them that the file knows."""
    return [found for found in map(ec2_type, names) if found is not None]


def source() -> str:
    """Where the file's contents come from, and from when they are."""
    return str(_document()["source"])


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(files(__package__).joinpath(_FILE).read_text())
    return document


@cache
def _table() -> dict[str, Ec2Type]:
    return {name: _read(name, row) for name, row in _document()["types"].items()}


def _read(name: str, row: str) -> Ec2Type:
    """`row` is such as 'x86_64|192|nvidia 8|disk|efa'."""
    architecture, vcpus, accelerators, disk, efa = row.split("|")
    return Ec2Type(name, architecture, int(vcpus), accelerators, disk == "disk", efa == "efa")
