"""The link's frames: nothing without the key, and none replayed, reordered, altered, oversized."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import config

from trainyard_agent.nodes.frames import (
    MAX_BYTES,
    UNACKNOWLEDGED_SECONDS,
    Frames,
    LinkError,
    encode,
    give_up_early,
    greet_as_client,
    greet_as_server,
)  # fmt: skip
from trainyard_agent.nodes.link_server import LinkServer
from trainyard_agent.nodes.links import Links

pytestmark = pytest.mark.real

KEY = b"k" * 32


def converse(
    client: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]],
    server: Callable[[Frames, str], Awaitable[Any]],
    server_key: bytes = KEY,
) -> Any:
    """Run both sides over a real socket; returns the server's result or raises its error."""

    async def both() -> Any:
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                frames, node, _ = await greet_as_server(reader, writer, server_key)
                result.set_result(await server(frames, node))
            except (LinkError, OSError, asyncio.IncompleteReadError) as error:
                result.set_exception(error)
            finally:
                writer.close()

        listening = await asyncio.start_server(accept, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        try:
            speaking = asyncio.ensure_future(client(reader, writer))
            found = await asyncio.wait_for(asyncio.shield(result), 60)
            await asyncio.gather(speaking, return_exceptions=True)
            return found
        finally:
            writer.close()
            listening.close()

    return asyncio.run(both())


async def receive_two(frames: Frames, node: str) -> list[Any]:
    return [node, await frames.receive(), await frames.receive()]


def test_both_sides_that_know_the_key_understand_each_other() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = await greet_as_client(reader, writer, KEY, "node-1", "i-1")
        frames.send({"n": 1})
        frames.send({"n": 2})
        await frames.drain()

    assert converse(client, receive_two) == ["node-1", {"n": 1}, {"n": 2}]


def test_a_client_without_the_key_is_refused() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet_as_client(reader, writer, b"wrong" * 8, "node-1", "i-1")

    with pytest.raises(LinkError, match="does not know the cluster's key"):
        converse(client, receive_two)


def test_a_client_notices_a_false_controller() -> None:
    noticed: list[str] = []

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(
            encode({"nonce": "n" * 32, "node": "a", "instance": "i", "proof": "0" * 64}) + b"\n"
        )
        noticed.append("sent")

    with pytest.raises(LinkError):
        converse(client, receive_two)
    assert noticed


@pytest.mark.parametrize("trick", ["replay", "alter", "oversize", "not json"])
def test_a_tampered_frame_ends_the_link(trick: str) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        written: list[bytes] = []
        frames = await greet_as_client(reader, writer, KEY, "node-1", "i-1")
        original = writer.write
        writer.write = lambda data: (written.append(bytes(data)), original(data))[1]  # type: ignore[method-assign, assignment]
        frames.send({"n": 1})
        frame = written[0]
        if trick == "replay":
            original(frame)
        elif trick == "alter":
            frames.send({"n": 2})
            original(frame[:-2] + b"9}")
        elif trick == "oversize":
            original((MAX_BYTES + 1).to_bytes(4, "big") + frame[4:])
        else:
            original(frame[:4] + b"\0" * 32 + b"x" * (len(frame) - 36))
        await writer.drain()

    async def server(frames: Frames, _: str) -> None:
        for _ in range(4):
            await frames.receive()

    with pytest.raises(LinkError):
        converse(client, server)


def test_a_message_over_the_limit_is_not_sent() -> None:
    with pytest.raises(LinkError, match="over the limit"):
        encode({"x": "y" * MAX_BYTES})


def test_a_link_whose_bytes_are_not_acknowledged_is_given_up_within_seconds() -> None:
    async def story() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        give_up_early(writer)
        found = writer.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT
        )
        assert found == UNACKNOWLEDGED_SECONDS * 1000
        writer.close()
        server.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "served"), [("ip-127-0-0-1", True), ("ip-127-0-0-2", False), ("node-1", False)]
)
def test_a_node_speaks_for_itself_only_although_all_nodes_have_the_key(
    name: str, served: bool, tmp_path: Path
) -> None:
    linked: list[str] = []

    class Beats:
        def linked(self, node: str, instance_id: str, address: str) -> None:
            linked.append(node)

        def beat(self, node: str, message: dict[str, Any]) -> None: ...

        def unlinked(self, node: str) -> None: ...

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        settings = config(tmp_path, address="127.0.0.1", link_port=port)
        server = LinkServer(settings, KEY, Links(), Beats())
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        frames = await greet_as_client(reader, writer, KEY, name, "i-1")
        if served:
            while not linked:
                await asyncio.sleep(0)
        else:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await asyncio.wait_for(frames.receive(), 60)
        writer.close()
        server.close()

    asyncio.run(story())
    assert linked == ([name] if served else [])
