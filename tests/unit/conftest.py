"""Holds a unit test to its word: without the marker `real` it starts no process and talks to no server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

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
    _pure[:] = [] if item.get_closest_marker("real") else [item.nodeid]
    try:
        return (yield)
    finally:
        _pure.clear()
