"""Holds a unit test to its word: without the marker `real` it starts no process and talks to no server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
_REAL = {
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "socket.bind",
    "socket.connect",
    "subprocess.Popen",
}
#: The pure test that runs now, if one does.
_pure: list[str] = []


def _refuse(event: str, _arguments: Any) -> None:
    if _pure and event in _REAL:
        raise AssertionError(f"{event} in {_pure[0]}: mark it `real`, or do without")


sys.addaudithook(_refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    # Asked of every test of the session, also of those that lie elsewhere.
    unit = item.path.is_relative_to(HERE)
    _pure[:] = [item.nodeid] if unit and not item.get_closest_marker("real") else []
    try:
        return (yield)
    finally:
        _pure.clear()
