"""The controller's parts are put together, and serve."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import config
from tests.support.ports import free_port

from trainyard_agent.checks import Node
from trainyard_agent.controller import Controller
from trainyard_agent.host.accelerators import Accelerators
from trainyard_agent.host.local_socket import COMMAND_SOCKET, address
from trainyard_agent.host.sampling import Sampler
from trainyard_agent.nodes.health import Health


async def answer(directory: str, *words: str) -> Any:
    with address(directory, COMMAND_SOCKET) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps({"words": words}).encode() + b"\n")
    line = await reader.readline()
    writer.close()
    return json.loads(line)


@pytest.mark.real
def test_a_controller_that_is_put_together_answers_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    async def story() -> None:
        settings = config(tmp_path, link_port=free_port())
        accelerators = Accelerators()
        health = Health(Node(settings, accelerators), [])
        controller = Controller(settings, b"k" * 32, Sampler(settings, accelerators), health)
        await controller.start()
        [own] = (await answer(settings.state_dir, "nodes"))["nodes"]
        assert own["node"] == settings.node_name
        controller.close()

    asyncio.run(asyncio.wait_for(story(), 60))
