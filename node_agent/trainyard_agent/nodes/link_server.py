"""The controller's side of the link: every node beats over one authenticated connection."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from trainyard_agent.nodes.frames import Frames, LinkError, give_up_early, greet_as_server
from trainyard_agent.nodes.links import Links
from trainyard_contracts.agent_config import AgentConfig

log = logging.getLogger(__name__)

#: What reading a message of any shape may raise.
NONSENSE = (LinkError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
#: What a handshake that comes to nothing raises.
_NO_GREETING = (LinkError, OSError, ValueError, asyncio.TimeoutError, asyncio.IncompleteReadError)


def slurm_name(address: str) -> str:
    """HyperPod's name of the node with this address, and EC2's of its host."""
    return "ip-" + address.replace(".", "-")


class Beats(Protocol):
    """Takes note of links and beats."""

    def is_at(self, node: str, host: str, address: str) -> bool:
        """Whether this node is at this address, by what others say."""
        ...

    def linked(self, node: str, instance_id: str, address: str) -> None: ...

    def beat(self, node: str, message: dict[str, Any]) -> None: ...

    def unlinked(self, node: str) -> None: ...


class LinkServer:
    """Puts each connection among the links while it lasts."""

    def __init__(self, config: AgentConfig, key: bytes, links: Links, beats: Beats) -> None:
        self._config, self._key, self._links, self._beats = config, key, links, beats
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve,
            self._config.address,
            self._config.link_port,
            limit=65536,
            reuse_address=True,
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._links.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        give_up_early(writer)
        try:
            frames, node, instance = await greet_as_server(reader, writer, self._key)
        except _NO_GREETING as error:
            log.warning("refused a link from %s: %s", peer, str(error) or type(error).__name__)
            writer.close()
            return
        host = slurm_name(str(peer[0]))
        if node != host and not self._beats.is_at(node, host, str(peer[0])):
            # Every node has the cluster's key, so the key alone does not say which of them speaks.
            log.warning("refused a link from %s: it calls itself %.64s", peer, node)
            writer.close()
            return
        self._links.add(node, frames)
        self._beats.linked(node, instance, str(peer[0]))
        try:
            await self._listen(node, frames)
        finally:
            writer.close()
            if self._links.remove(node, frames):
                self._beats.unlinked(node)

    async def _listen(self, node: str, frames: Frames) -> None:
        """Until the link ends."""
        try:
            while True:
                self._take(node, await frames.receive())
        except (*NONSENSE, OSError, asyncio.IncompleteReadError) as error:
            # A node that sends nonsense loses its link; the controller goes on serving the others.
            log.info("the link of %s ended: %s", node, str(error) or type(error).__name__)

    def _take(self, node: str, message: dict[str, Any]) -> None:
        kind = message.get("is")
        if kind == "beat":
            self._beats.beat(node, message)
        elif kind == "done":
            self._links.answered(message)
