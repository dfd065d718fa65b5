"""The controller's side of the link: one authenticated connection a node, beats in, orders out."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import Any, Protocol

from trainyard_agent.frames import Frames, LinkError, give_up_early, greet_as_server
from trainyard_contracts.files import AgentConfig

log = logging.getLogger(__name__)

ORDER_SECONDS = 2.0
#: What reading a message of any shape may raise.
NONSENSE = (LinkError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError)


def slurm_name(address: str) -> str:
    """HyperPod's name of the node with this address."""
    return "ip-" + address.replace(".", "-")


class Beats(Protocol):
    """Who wants to know of links and beats."""

    def linked(self, node: str, instance_id: str, address: str) -> None: ...

    def beat(self, node: str, message: dict[str, Any]) -> None: ...

    def unlinked(self, node: str) -> None: ...


class LinkServer:
    """A node that connects again replaces its older connection."""

    def __init__(self, config: AgentConfig, key: bytes, beats: Beats) -> None:
        self._config, self._key, self._beats = config, key, beats
        self._links: dict[str, Frames] = {}
        self._orders: dict[int, asyncio.Future[int]] = {}
        self._numbers = itertools.count(1)
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
        for frames in self._links.values():
            frames.close()

    def drop(self, node: str) -> None:
        """Close a connection that is open but says nothing any more."""
        frames = self._links.pop(node, None)
        if frames is not None:
            frames.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        give_up_early(writer)
        try:
            frames, node, instance = await greet_as_server(reader, writer, self._key)
        except (
            LinkError,
            OSError,
            ValueError,
            asyncio.TimeoutError,
            asyncio.IncompleteReadError,
        ) as error:
            log.warning("refused a link from %s: %s", peer, str(error) or type(error).__name__)
            writer.close()
            return
        if node != slurm_name(str(peer[0])):
            # Every node has the cluster's key, so the key alone does not say which of them speaks.
            log.warning("refused a link from %s: it calls itself %.64s", peer, node)
            writer.close()
            return
        self.drop(node)
        self._links[node] = frames
        self._beats.linked(node, instance, str(peer[0]))
        try:
            while True:
                self._take(node, await frames.receive())
        except (*NONSENSE, OSError, asyncio.IncompleteReadError) as error:
            # One node that talks nonsense loses its link; the controller serves the others.
            log.info("the link of %s ended: %s", node, str(error) or type(error).__name__)
        finally:
            writer.close()
            if self._links.get(node) is frames:
                del self._links[node]
                self._beats.unlinked(node)

    def _take(self, node: str, message: dict[str, Any]) -> None:
        kind = message.get("is")
        if kind == "beat":
            self._beats.beat(node, message)
        elif kind == "done":
            order = self._orders.get(message["id"]) if isinstance(message.get("id"), int) else None
            killed = message.get("killed")
            if not isinstance(killed, int):
                raise LinkError(f"an answer that counts no processes: {message!r:.200}")
            if order is not None and not order.done():
                order.set_result(killed)

    async def kill(self, run_id: str, attempt: int, job_ids: Iterable[str]) -> dict[str, int]:
        """Order every linked node to end what older attempts left; node -> processes killed. A node that does not answer is left out."""
        jobs = list(job_ids)
        nodes = list(self._links)
        answers = await asyncio.gather(
            *(
                self._order(node, {"is": "kill", "run": run_id, "attempt": attempt, "jobs": jobs})
                for node in nodes
            )
        )
        return {
            node: count for node, count in zip(nodes, answers, strict=True) if count is not None
        }

    async def kill_on(
        self, node: str, run_id: str, attempt: int, job_ids: Iterable[str]
    ) -> int | None:
        """The same on one node; None if it does not answer."""
        return await self._order(
            node, {"is": "kill", "run": run_id, "attempt": attempt, "jobs": list(job_ids)}
        )

    async def echo(self, nodes: Iterable[str], seconds: float) -> set[str]:
        """Those of the nodes whose agents answer within so many seconds."""
        asked = list(nodes)
        answers = await asyncio.gather(
            *(self._order(node, {"is": "echo"}, seconds) for node in asked)
        )
        return {node for node, answer in zip(asked, answers, strict=True) if answer is not None}

    async def _order(
        self, node: str, message: dict[str, Any], seconds: float = ORDER_SECONDS
    ) -> int | None:
        frames, number = self._links.get(node), next(self._numbers)
        if frames is None:
            return None
        self._orders[number] = asyncio.get_running_loop().create_future()
        try:
            frames.send({**message, "id": number})
            return await asyncio.wait_for(self._orders[number], seconds)
        except (asyncio.TimeoutError, LinkError, OSError) as error:
            log.warning(
                "%s did not answer the order %s: %s",
                node,
                message["is"],
                str(error) or type(error).__name__,
            )
            return None
        finally:
            del self._orders[number]
