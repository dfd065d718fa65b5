"""Fixtures of the outbox's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard_agent.events.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "outbox.sqlite")
    yield found
    found.close()
