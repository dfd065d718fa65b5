"""A unit test without the marker `real` fails if it starts a process or talks to a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _held_to_its_word(item: pytest.Item) -> Iterator[None]:
    # Asked of every test of the session, also of those that lie elsewhere.
    unit = item.path.is_relative_to(HERE)
    _pure[:] = [item.nodeid] if unit and not item.get_closest_marker("real") else []
    try:
        yield
    finally:
        _pure.clear()


# Not while a test is torn down: what the whole session shared may end with a pure one.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _held_to_its_word(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _held_to_its_word(item):
        return (yield)
