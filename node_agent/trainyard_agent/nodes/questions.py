"""Asks a node's slurmd whether it lives.

Many questions overlap, because on a bad link a single answer may take seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import time
from dataclasses import dataclass, field
from typing import Literal

from trainyard_agent.nodes.liveness import QUESTIONS_NEEDED, UNANSWERED_SECONDS

#: 'unasked': the question never left this machine, which says nothing of the node.
Answer = Literal["up", "refused", "none", "unasked"]
Slurmd = Literal["up", "refused", "silent", "unknown"]
_OF_THE_NODE = (errno.EHOSTUNREACH, errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTDOWN)

ANSWER_SECONDS = 3.0
# Between two questions: until it is known what the silence means, after a refusal, and when slurmd
# answers or is given up.
EAGER_SECONDS, AGAIN_SECONDS, CALM_SECONDS = 0.1, 0.05, 2.0
# Where many nodes are silent at once, they share this many questions a second: each is an open
# socket for up to ANSWER_SECONDS.
QUESTIONS_A_SECOND = 150


async def ask(address: str, port: int) -> Answer:
    """Ask a slurmd whether it lives; 'up' needs slurmd itself, which closes a silent connection.

    That the connection is accepted is not enough: the kernel accepts for a stopped slurmd, too.
    """
    try:
        return await asyncio.wait_for(_ask(address, port), ANSWER_SECONDS)
    except ConnectionRefusedError:
        return "refused"
    except asyncio.TimeoutError:
        return "none"
    except OSError as error:
        return "none" if error.errno in _OF_THE_NODE else "unasked"


async def _ask(address: str, port: int) -> Answer:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write_eof()
        await reader.read(1)
    finally:
        writer.close()
    return "up"


@dataclass
class Questions:
    """What was asked of one slurmd since its node was last heard, and what it answered.

    refusals, answers: in a row. open: when those without an answer were asked, oldest first. heard:
    when slurmd, or the node's kernel for it, last answered; an answer proves that the node lived
    when it was asked. took: how long answers took that nobody has
    noted yet.
    """

    refusals: int = 0
    answers: int = 0
    open: list[float] = field(default_factory=list)
    heard: float = float("-inf")
    took: list[float] = field(default_factory=list)
    asked: float = float("-inf")
    _waiting: dict[asyncio.Task[Answer], float] = field(default_factory=dict)

    def slurmd(self, now: float) -> Slurmd:
        """What is known of it by now."""
        if self.refusals:
            return "refused"
        if len(self.open) >= QUESTIONS_NEEDED and self.unanswered(now) >= UNANSWERED_SECONDS:
            return "silent"
        return "up" if self.answers else "unknown"

    def unanswered(self, now: float) -> float:
        """Seconds since the first question that slurmd has not answered, nor any later one."""
        return now - self.open[0] if self.open else 0.0

    def ask(self, address: str, port: int) -> None:
        self.asked = time.monotonic()
        self.open.append(self.asked)
        self._waiting[asyncio.create_task(ask(address, port))] = self.asked

    def pause(self, now: float, silent_nodes: int, *, calm: bool) -> float:
        """Seconds until the next question. `calm`: what the silence means was reported."""
        settled = calm and (self.answers > 0 or self.unanswered(now) > 2 * ANSWER_SECONDS)
        usual = AGAIN_SECONDS if self.refusals else CALM_SECONDS if settled else EAGER_SECONDS
        return max(0.0, self.asked + max(usual, silent_nodes / QUESTIONS_A_SECOND) - now)

    async def wait(self, seconds: float) -> None:
        """Until something is answered, but not longer than this."""
        if not self._waiting:
            await asyncio.sleep(seconds)
            return
        done, _ = await asyncio.wait(
            self._waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            self._take(task.result(), self._waiting.pop(task))

    def _take(self, answer: Answer, asked: float) -> None:
        if answer in ("none", "unasked"):
            if answer == "none":
                self.answers = 0
            elif asked in self.open:
                self.open.remove(asked)
            return
        self.open = [other for other in self.open if other > asked]
        self.took.append(time.monotonic() - asked)
        self.heard = max(self.heard, asked)
        self.answers = self.answers + 1 if answer == "up" else 0
        self.refusals = self.refusals + 1 if answer == "refused" else 0

    def forget(self) -> None:
        """Forget all questions and answers until now."""
        self.close()
        self.refusals = self.answers = 0
        self.open.clear()
        self.heard = float("-inf")

    def close(self) -> None:
        for task in self._waiting:
            task.cancel()
        self._waiting.clear()


def address_of(known: str, linked: str) -> str:
    """Slurm's address of a node if it is one.

    For a name, the address that its agent has: to ask for names takes threads and time.
    """
    return linked if linked and not _literal(known) else known


def _literal(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(address))
    return False
