"""Commands that are none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from trainyard_agent.commands.server import CommandServer


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 60_000,
        b"[]",
        b"null",
        b"\xff",
        b'{"words": "nodes"}',
        b'{"words": ["x", 1]}',
        b'{"words": ["explode"]}',
        b"",
    ],
)
def test_a_command_that_is_none_is_refused_and_the_agent_goes_on(
    tmp_path: Path, line: bytes
) -> None:
    server = CommandServer(str(tmp_path), {}, lambda: None)
    assert asyncio.run(server._answer(line))["error"] == "invalid-request"
