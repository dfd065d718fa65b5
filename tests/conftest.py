"""Gives every test the usual signals, and the HTTP API's tests, unit and contract, fixtures."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# What fails in a helper is told as in a test.
pytest.register_assert_rewrite("tests.support")

if TYPE_CHECKING:
    from tests.support.http_events import Client
    from tests.support.memory import World


def pytest_configure() -> None:
    """Let Ctrl-C end the tests: a shell in whose background they run has them ignore it.

    Every process that they start would ignore it, too.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # On a busy machine an example takes longer than hypothesis allows one by default.
    settings.register_profile("unhurried", settings.default, deadline=None)
    settings.load_profile("unhurried")


def pytest_runtest_teardown() -> None:
    """See that no exception stays this thread's: later ones would name it as their context."""
    assert sys.exception() is None


@pytest.fixture
def world() -> World:
    from tests.support.memory import World  # here, so that other tests do not pay for it

    return World()


@pytest.fixture
def client(world: World) -> Client:
    from tests.support.http_events import Client

    from trainyard.http.api import Api

    return Client(Api(lambda: world.ports))
