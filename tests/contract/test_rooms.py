"""A package is a few rooms: none has many at its top, and none keeps its code in `__init__.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.repository import ROOT

PACKAGES = (
    "layers/contracts/trainyard_contracts",
    "layers/core/trainyard",
    "node_agent/trainyard_agent",
    "job_library/trainyard_job",
    "job_library/trainyard_container",
    "trainers/trainyard_trainers",
    "localcloud/sam_on_moto",
    "localcloud/trainyard_local",
    "cli/trainyard_cli",
    "cli/trainyard_sdk",
)
ROOMS = 10
#: A registry of the package's own modules (checks, launchers) fits into this.
LINES = 80


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_at_most_ten_rooms_at_its_top(package: str) -> None:
    rooms = {path.parent.name for path in Path(ROOT, package).glob("*/*.py")}
    assert len(rooms) <= ROOMS, sorted(rooms)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_room_keeps_its_code_in_modules_with_a_name(package: str) -> None:
    long = [
        str(path.relative_to(ROOT))
        for path in Path(ROOT, package).rglob("__init__.py")
        if len(path.read_text().splitlines()) > LINES
    ]
    assert not long, f"move the code into a module of the room: {long}"
