"""A node's side of the link.

It beats each second, carries sample and verdicts, and does what the controller's agent asks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable
from typing import Any

from trainyard_agent.host.background import Background
from trainyard_agent.host.boot import boot_id
from trainyard_agent.host.identifiers import RUN_ID
from trainyard_agent.nodes.containers import remove_left
from trainyard_agent.nodes.frames import Frames, LinkError, give_up_early, greet_as_client
from trainyard_agent.nodes.leftovers import count_alive, kill_leftovers
from trainyard_contracts.agent_config import AgentConfig

log = logging.getLogger(__name__)

CONNECT_SECONDS = 3.0
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 2.0


class LinkClient:
    """Keeps one connection to the controller's agent, for ever."""

    def __init__(
        self,
        config: AgentConfig,
        key: bytes,
        sample: Callable[[], dict[str, Any]],
        verdicts: Callable[[], dict[str, list[str]]],
        notice: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`notice`: when EC2 takes this node back, if it said so."""
        self._config, self._key = config, key
        self._sample, self._verdicts, self._notice = sample, verdicts, notice
        self._background = Background()

    async def run(self) -> None:
        retry = FIRST_RETRY_SECONDS
        while True:
            try:
                await self._session()
                retry = FIRST_RETRY_SECONDS
            except (
                OSError,
                LinkError,
                ValueError,
                asyncio.TimeoutError,
                asyncio.IncompleteReadError,
            ) as error:
                log.info(
                    "no link to the controller's agent at %s: %s",
                    self._config.controller_address,
                    str(error) or type(error).__name__,
                )
            await asyncio.sleep(retry * (0.5 + random.random() / 2))
            retry = min(LAST_RETRY_SECONDS, retry * 1.5)

    async def _session(self) -> None:
        config = self._config
        # Bound to the own address, so that the controller sees which node speaks also where all
        # share one machine.
        connecting = asyncio.open_connection(
            config.controller_address, config.link_port, local_addr=(config.address, 0)
        )
        reader, writer = await asyncio.wait_for(connecting, CONNECT_SECONDS)
        give_up_early(writer)
        try:
            frames = await greet_as_client(
                reader, writer, self._key, config.node_name, config.instance_id
            )
            log.info("linked to the controller's agent")
            await self._talk(frames)
        finally:
            writer.close()

    async def _talk(self, frames: Frames) -> None:
        beats = asyncio.create_task(self._beat(frames))
        receives = asyncio.create_task(self._obey(frames))
        done, pending = await asyncio.wait({beats, receives}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    async def _beat(self, frames: Frames) -> None:
        sent: dict[str, list[str]] = {}
        first = {"boot": await asyncio.to_thread(boot_id)}
        while True:
            message: dict[str, Any] = {"is": "beat", "sample": self._sample(), **first}
            first = {}
            verdicts = self._verdicts()
            if verdicts != sent:
                message["verdicts"] = sent = verdicts
            if (notice := self._notice()) is not None:
                message["endsAt"] = notice
            frames.send(message)
            await asyncio.wait_for(frames.drain(), CONNECT_SECONDS)
            await asyncio.sleep(self._config.beat_seconds)

    async def _obey(self, frames: Frames) -> None:
        while True:
            message = await frames.receive()
            if message.get("is") == "echo":
                frames.send({"is": "done", "id": message.get("id"), "killed": 0})
            elif message.get("is") == "kill":
                frames.send(
                    {"is": "done", "id": message.get("id"), "killed": await self._kill(message)}
                )
            elif message.get("is") == "count":
                frames.send(
                    {"is": "done", "id": message.get("id"), "alive": await self._count(message)}
                )

    async def _count(self, message: dict[str, Any]) -> int:
        run, attempt = _attempt_of(message)
        return await asyncio.to_thread(count_alive, run, attempt, self._config.node_name)

    async def _kill(self, message: dict[str, Any]) -> int:
        (run, attempt), jobs = _attempt_of(message), message.get("jobs")
        if not isinstance(jobs, list):
            raise LinkError(f"a kill order that names no jobs: {message!r:.200}")
        names = [str(job) for job in jobs]
        root = os.environ.get("TRAINYARD_ROOT")
        killed = await asyncio.to_thread(
            kill_leftovers, run, attempt, names, self._config.node_name, node_root=root
        )
        log.info("killed %d leftovers of attempts up to %d of %s", killed, attempt, run)
        self._background.spawn(asyncio.to_thread(remove_left, names))  # the next job does not wait
        return killed


def _attempt_of(message: dict[str, Any]) -> tuple[str, int]:
    """Of which run and attempt an order is. Raises LinkError."""
    run, attempt = message.get("run"), message.get("attempt")
    if isinstance(run, str) and RUN_ID.match(run) and isinstance(attempt, int):
        return run, attempt
    raise LinkError(f"an order that names no run and attempt: {message!r:.200}")
