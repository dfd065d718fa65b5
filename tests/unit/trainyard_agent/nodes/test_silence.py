"""On a bad link, and by a controller that stalls itself, no node that lives is lost; a dead one is.

All seconds are those of a simulated clock.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_parts import NodeParts
from tests.support.simulated_time import SimulatedLoop, play_simulated
from tests.unit.trainyard_agent.nodes.test_questions import NODES, linked_nodes

from trainyard_agent.nodes import questions

SUSPECT, OTHER = NODES
LONG_SECONDS = 90.0
#: By 1, 14 and 45 a node was lost when stalls and lateness did not count.
SEEDS = (0, 1, 2, 14, 45)
#: A silent node without a job is lost after so long at the latest while nothing else is wrong: its
#: beat is late after 1.5 s, and slurmd is asked for 1.7 s.
QUICK_SECONDS = 3.5


@dataclass
class Wire:
    """To one node: loss and delay each way, and how long its slurmd takes to close a connection."""

    dice: random.Random
    loss: float = 0.0
    delay: float = 0.0
    busy: float = 0.0
    dead: bool = False
    unheard_since: float = field(default=0.0)

    def passes(self, again_after: float) -> float:
        """Until a segment arrives that is sent again, ever later, while it is lost."""
        found = self.delay
        while self.dice.random() < self.loss:
            found, again_after = found + again_after, again_after * 2
        return found

    def answer(self) -> float:
        """Opening, its acknowledgement, our end, slurmd's end."""
        usual = 2 * self.delay + 0.3
        opened = self.passes(1.0) + self.passes(1.0)
        return opened + self.passes(usual) + self.dice.uniform(0, self.busy) + self.passes(usual)


class World:
    """Two nodes that beat, one over a wire, and the controller's parts on a loop of its own."""

    def __init__(self, loop: SimulatedLoop, made: NodeParts, wire: Wire) -> None:
        self.loop, self.made, self.wire = loop, made, wire
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        other = self.beats(OTHER, Wire(random.Random(1)))
        for each in (self.made.silence.watch(), other, self.beats(SUSPECT, self.wire)):
            self.tasks.append(asyncio.create_task(each))

    async def beats(self, name: str, wire: Wire) -> None:
        """One a second; a lost one holds up those behind it."""
        sent, read = self.loop.now + wire.dice.random(), 0.0
        while not wire.dead:
            read = max(read, sent + wire.passes(2 * wire.delay + 0.3))
            await asyncio.sleep(read - self.loop.now)
            if not wire.dead:
                wire.unheard_since = self.loop.now
                self.made.registry.beat(name, {"is": "beat"})
            sent += 1.0 + wire.dice.uniform(0, wire.busy / 4)

    async def stalls(self, most: float, every: float) -> None:
        """The controller itself gets no processor now and then."""
        while True:
            await asyncio.sleep(self.wire.dice.expovariate(1 / every))
            self.loop.stall(self.wire.dice.uniform(0.05, most))

    async def doubts(self) -> None:
        """Training stands still for a moment ever again, so its nodes are asked early."""
        while True:
            await asyncio.sleep(self.wire.dice.uniform(0.5, 2.5))
            await self.made.silence.confirm([SUSPECT])

    def lost(self) -> bool:
        return self.made.table.lost(SUSPECT)


@contextmanager
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> Iterator[tuple[World, Any]]:
    """`play` runs a story in it."""
    loop = SimulatedLoop()

    async def ask(address: str, port: int) -> questions.Answer:
        seconds = questions.ANSWER_SECONDS if wire.dead else wire.answer()
        await asyncio.sleep(min(seconds, questions.ANSWER_SECONDS))
        return "up" if seconds < questions.ANSWER_SECONDS else "none"

    monkeypatch.setattr(questions, "ask", ask)
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", loop.time)
        controller, made, _ = linked_nodes(tmp_path, 6818)
    yield World(loop, made, wire), lambda story: play_simulated(monkeypatch, loop, story)
    controller.store.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("most", "every", "busy"),
    [(0.05, 1e9, 0.0), (0.45, 0.6, 0.0), (0.45, 0.6, 0.4), (1.5, 2.0, 0.4)],
    ids=["quiet", "stalls", "stalls and a busy node", "long stalls"],
)
def test_a_node_behind_five_per_cent_loss_and_300_ms_of_delay_is_not_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    most: float,
    every: float,
    busy: float,
) -> None:
    with world(tmp_path, monkeypatch, Wire(random.Random(seed), 0.05, 0.3, busy)) as (here, play):

        async def story() -> None:
            await here.begin()
            here.tasks += map(asyncio.create_task, (here.stalls(most, every), here.doubts()))
            await asyncio.sleep(LONG_SECONDS)
            assert not here.lost(), here.made.table.evidence(SUSPECT).detail

        play(story())


def seconds_until_lost(here: World, play: Any, *, most: float, every: float) -> float:
    found: list[float] = []

    async def story() -> None:
        await here.begin()
        here.tasks += [asyncio.create_task(here.stalls(most, every))]
        await asyncio.sleep(20.0 + here.wire.dice.random())
        here.wire.dead, began = True, here.loop.now
        while not here.lost() and here.loop.now - began < 60.0:
            await asyncio.sleep(0.01)
        found.append(here.loop.now - began)

    play(story())
    return found[0]


@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_dies_on_a_quiet_machine_is_lost_as_fast_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with world(tmp_path, monkeypatch, Wire(random.Random(seed))) as (here, play):
        assert seconds_until_lost(here, play, most=0.05, every=1e9) < QUICK_SECONDS


@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_dies_behind_a_bad_link_while_the_controller_stalls_is_lost_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with world(tmp_path, monkeypatch, Wire(random.Random(seed), 0.05, 0.3, 0.4)) as (here, play):
        assert seconds_until_lost(here, play, most=0.45, every=0.6) < 15.0
