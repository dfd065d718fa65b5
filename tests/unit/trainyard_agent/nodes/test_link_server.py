"""A node that talks nonsense."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import config
from tests.support.agent_parts import node_parts

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.nodes import link_server
from trainyard_agent.nodes.link_server import LinkServer
from trainyard_agent.nodes.links import Links


@pytest.mark.parametrize(
    "message",
    [
        {"is": "beat", "sample": {"at": "never", "cpuPercent": "all"}},
        {"is": "beat", "sample": {"at": "2026-01-01T00:00:00Z", "gpus": 7}},
        {"is": "beat", "verdicts": {"disk": 5}},
        {"is": "beat", "verdicts": {"disk": ["error"]}},
        {"is": "done", "id": 1, "killed": "many"},
    ],
)
def test_a_node_that_talks_nonsense_loses_its_link_and_nothing_else_happens(
    tmp_path: Path, message: dict[str, Any]
) -> None:
    class Link:
        """Frames of a node that says one thing."""

        async def receive(self) -> dict[str, Any]:
            return message

        def close(self) -> None:
            return

    async def story() -> None:
        store = Store(tmp_path / "outbox.sqlite")
        parts = node_parts(config(tmp_path), Reporter(config(tmp_path), store))
        links = Links()
        server = LinkServer(config(tmp_path), b"k", links, parts.registry)
        links._orders[1] = asyncio.get_running_loop().create_future()
        parts.registry.linked("ip-1", "i-1", "127.0.0.1")
        with pytest.raises(link_server.NONSENSE):
            server._take("ip-1", await Link().receive())
        assert (
            len(
                parts.table.samples(
                    {
                        "node": "me",
                        "instanceId": "i",
                        "role": "controller",
                        "at": "2026-01-01T00:00:00Z",
                    }
                )
            )
            == 2
        )
        store.close()

    asyncio.run(story())
