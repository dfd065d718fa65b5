"""The open connections to the nodes' agents, and the orders that go over them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable
from typing import Any

from trainyard_agent.nodes.frames import Frames, LinkError

log = logging.getLogger(__name__)

ORDER_SECONDS = 2.0


class Links:
    """One connection a node; it stays here as long as the link server reads from it."""

    def __init__(self) -> None:
        self._links: dict[str, Frames] = {}
        self._orders: dict[int, asyncio.Future[int]] = {}
        self._numbers = itertools.count(1)

    def add(self, node: str, frames: Frames) -> None:
        """A node that connects again replaces its older connection."""
        self.drop(node)
        self._links[node] = frames

    def remove(self, node: str, frames: Frames) -> bool:
        """Whether this was the node's connection, and not an older one."""
        current = self._links.get(node) is frames
        if current:
            del self._links[node]
        return current

    def drop(self, node: str) -> None:
        """Close a connection that is open but says nothing any more."""
        frames = self._links.pop(node, None)
        if frames is not None:
            frames.close()

    def close(self) -> None:
        for frames in self._links.values():
            frames.close()

    async def kill(self, run_id: str, attempt: int, job_ids: Iterable[str]) -> dict[str, int]:
        """Order every linked node to end what older attempts left.

        Returns how many processes each node killed. A node that does not answer is left out.
        """
        jobs = list(job_ids)
        nodes = list(self._links)
        answers = await asyncio.gather(
            *(self.kill_on(node, run_id, attempt, jobs) for node in nodes)
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

    async def alive(self, nodes: Iterable[str], run_id: str, attempt: int) -> int | None:
        """How many processes of the attempt's step run on these nodes.

        None if any node does not answer: what is unreachable is not dead. An agent of an older
        version does not know the order and does not answer, either.
        """
        message = {"is": "count", "run": run_id, "attempt": attempt}
        found = await asyncio.gather(*(self._order(node, message) for node in nodes))
        counted = [count for count in found if count is not None]
        return sum(counted) if len(counted) == len(found) else None

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
            why = str(error) or type(error).__name__
            log.warning("%s did not answer the order %s: %s", node, message["is"], why)
            return None
        finally:
            del self._orders[number]

    def answered(self, message: dict[str, Any]) -> None:
        """Take a node's answer to an order. Raises LinkError where it is none."""
        order = self._orders.get(message["id"]) if isinstance(message.get("id"), int) else None
        count = message.get("alive", message.get("killed"))
        if not isinstance(count, int):
            raise LinkError(f"an answer that counts no processes: {message!r:.200}")
        if order is not None and not order.done():
            order.set_result(count)
