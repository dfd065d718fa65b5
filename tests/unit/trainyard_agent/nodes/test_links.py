"""A link that speaks nonsense ends; the agents at both its ends, and every other link, go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.ports import free_port

from trainyard_agent.nodes.frames import Frames, greet_as_client, greet_as_server
from trainyard_agent.nodes.link_client import LinkClient
from trainyard_agent.nodes.link_server import LinkServer
from trainyard_agent.nodes.links import Links
from trainyard_contracts.agent_config import AgentConfig

pytestmark = pytest.mark.real

KEY = b"k" * 32
HALF = "\\ud800"


class Beats:
    """nodes.registry.Registry as far as links go.

    A beat's sample is read as trustingly as any code might.
    """

    def __init__(self) -> None:
        self.seen: asyncio.Queue[str] = asyncio.Queue()

    def linked(self, node: str, instance_id: str, address: str) -> None:
        self.seen.put_nowait(f"{node} linked")

    def beat(self, node: str, message: dict[str, Any]) -> None:
        int(message["sample"]["cpu"])
        self.seen.put_nowait(f"{node} beat")

    def unlinked(self, node: str) -> None:
        self.seen.put_nowait(f"{node} unlinked")


def with_server(
    directory: Path, story: Callable[[AgentConfig, Links, Beats], Awaitable[None]]
) -> None:
    async def run() -> None:
        broken: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
        settings = config(directory, link_port=free_port())
        beats, links = Beats(), Links()
        server = LinkServer(settings, KEY, links, beats)
        await server.start()
        try:
            await story(settings, links, beats)
        finally:
            server.close()
        assert broken == [], "an error that nobody expected ends an agent"

    asyncio.run(asyncio.wait_for(run(), 60))


BAD, GOOD = "ip-127-0-0-2", "ip-127-0-0-3"


async def link(settings: AgentConfig, node: str) -> Frames:
    """A link of the node, from the address that its name tells."""
    address = node.removeprefix("ip-").replace("-", ".")
    reader, writer = await asyncio.open_connection(
        settings.address, settings.link_port, local_addr=(address, 0)
    )
    return await greet_as_client(reader, writer, KEY, node, "i-1")


@pytest.mark.parametrize("nonsense", [
    {"is": "beat", "sample": {"cpu": float("inf")}},
    {"is": "beat", "sample": {"cpu": HALF.encode().decode("unicode_escape")}},
    {"is": "beat", "sample": {}},
    {"is": "beat", "sample": []},
    {"is": "done", "id": 1, "killed": float("inf")},
    {"is": "done", "id": 1, "killed": "many"},
])  # fmt: skip
def test_a_message_of_another_shape_ends_its_own_link_only(
    tmp_path: Path, nonsense: dict[str, Any]
) -> None:
    async def story(settings: AgentConfig, links: Links, beats: Beats) -> None:
        bad, good = await link(settings, BAD), await link(settings, GOOD)
        assert {await beats.seen.get(), await beats.seen.get()} == {
            f"{BAD} linked",
            f"{GOOD} linked",
        }
        bad.send(nonsense)
        assert await beats.seen.get() == f"{BAD} unlinked"
        good.send({"is": "beat", "sample": {"cpu": 5}})
        assert await beats.seen.get() == f"{GOOD} beat"
        for frames in (bad, good):
            frames.close()

    with_server(tmp_path, story)


def test_an_answer_that_counts_nothing_ends_the_link_and_the_order_is_given_up(
    tmp_path: Path,
) -> None:
    async def story(settings: AgentConfig, links: Links, beats: Beats) -> None:
        bad = await link(settings, BAD)
        await beats.seen.get()
        order = asyncio.ensure_future(links.kill(RUN, 1, ["7"]))
        asked = await bad.receive()
        bad.send({"is": "done", "id": asked["id"], "killed": float("inf")})
        assert await beats.seen.get() == f"{BAD} unlinked"
        assert await order == {}
        assert await links.kill(RUN, 1, ["7"] * 100_000) == {}, "no link is left"
        bad.close()

    with_server(tmp_path, story)


def test_an_order_that_no_frame_can_hold_is_given_up(tmp_path: Path) -> None:
    async def story(settings: AgentConfig, links: Links, beats: Beats) -> None:
        frames = await link(settings, BAD)
        await beats.seen.get()
        assert await links.kill(RUN, 1, ["7"] * 100_000) == {}
        frames.close()

    with_server(tmp_path, story)


def test_an_order_without_an_answer_says_why_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(settings: AgentConfig, links: Links, beats: Beats) -> None:
        frames = await link(settings, BAD)
        await beats.seen.get()
        assert await links.echo([BAD], 0.01) == set()
        assert "did not answer the order echo: TimeoutError" in caplog.text
        frames.close()

    with_server(tmp_path, story)


HANDSHAKES = {
    "over 64 KB": b"x" * 200_000 + b"\n",
    "over 1 KB": b'{"nonce": "' + b"x" * 2000 + b'"}\n',
    "half a character": b'{"nonce": "'
    + HALF.encode()
    + b'", "node": "n", "instance": "i", "proof": "p"}\n',
    "no JSON": b"\xff\xfe\n",
    "nothing": b"",
}


@pytest.mark.parametrize("line", HANDSHAKES.values(), ids=HANDSHAKES.keys())
def test_a_bad_handshake_ends_neither_the_controllers_agent(tmp_path: Path, line: bytes) -> None:
    async def story(settings: AgentConfig, links: Links, beats: Beats) -> None:
        reader, writer = await asyncio.open_connection(settings.address, settings.link_port)
        writer.write(line)
        writer.write_eof()
        await reader.read()
        writer.close()
        frames = await link(settings, GOOD)
        assert await beats.seen.get() == f"{GOOD} linked"
        frames.close()

    with_server(tmp_path, story)


@pytest.mark.parametrize("line", HANDSHAKES.values(), ids=HANDSHAKES.keys())
def test_nor_a_nodes_agent(tmp_path: Path, line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard_agent.nodes.link_client.FIRST_RETRY_SECONDS", 0.01)

    async def story() -> None:
        linked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        tries: list[int] = []

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tries.append(1)
            if len(tries) == 1:
                writer.write(line)
                writer.close()
                return
            _, node, _ = await greet_as_server(reader, writer, KEY)
            linked.set_result(node)
            await reader.read()
            writer.close()

        listening = await asyncio.start_server(accept, "127.0.0.1", 0)
        settings = config(tmp_path, link_port=listening.sockets[0].getsockname()[1])
        client = asyncio.ensure_future(LinkClient(settings, KEY, dict, dict).run())
        assert await linked == settings.node_name
        while not client.done():  # asyncio.wait_for of Python 3.11 may swallow one
            client.cancel()
            await asyncio.wait({client}, timeout=0.05)
        listening.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_processes_are_counted_on_all_nodes_or_nobody_knows(tmp_path: Path) -> None:
    async def story(settings: AgentConfig, links: Links, beats: Beats) -> None:
        first, second = await link(settings, BAD), await link(settings, GOOD)
        assert {await beats.seen.get(), await beats.seen.get()} == {
            f"{BAD} linked",
            f"{GOOD} linked",
        }
        counting = asyncio.ensure_future(links.alive([BAD, GOOD], RUN, 1))
        for frames, alive in ((first, 2), (second, 0)):
            asked = await frames.receive()
            assert (asked["is"], asked["run"], asked["attempt"]) == ("count", RUN, 1)
            frames.send({"is": "done", "id": asked["id"], "alive": alive})
        assert await counting == 2
        assert await links.alive([BAD, "ip-127-0-0-9"], RUN, 1) is None, "one is not linked"
        for frames in (first, second):
            frames.close()

    with_server(tmp_path, story)
