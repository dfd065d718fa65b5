"""slurmd's word is an answer of its own, not a connection that a kernel accepts for it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.agent_parts import Controller, NodeParts, node_parts
from tests.support.waiting import eventually_async

from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.nodes import questions
from trainyard_agent.nodes.link_client import LinkClient
from trainyard_agent.nodes.link_server import LinkServer
from trainyard_agent.nodes.links import Links
from trainyard_agent.nodes.questions import Questions, address_of, ask

NODES = ("ip-127-0-0-2", "ip-127-0-0-3")


def listening() -> socket.socket:
    """The kernel accepts for it; nobody reads."""
    found = socket.socket()
    found.bind(("127.0.0.1", 0))
    found.listen(64)
    return found


@pytest.mark.real
def test_a_daemon_that_closes_is_up_one_that_stands_still_says_nothing_and_a_closed_port_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.2)

    async def story() -> None:
        async def slurmd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(slurmd, "127.0.0.1", 0)
        with listening() as still:
            port = still.getsockname()[1]
            assert await ask("127.0.0.1", server.sockets[0].getsockname()[1]) == "up"
            assert await ask("127.0.0.1", port) == "none"
        assert await ask("127.0.0.1", port) == "refused"
        server.close()

    asyncio.run(story())


def test_what_this_machine_cannot_ask_says_nothing_of_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_sockets(*_: Any) -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncio, "open_connection", no_sockets)
    assert asyncio.run(ask("127.0.0.1", 6818)) == "unasked"


def test_an_answer_settles_earlier_questions_and_a_question_never_sent_does_not_count() -> None:
    asked = Questions(open=[1.0, 2.0, 3.0, 4.0])
    asked._take("up", 2.0)
    assert (asked.open, asked.answers, asked.heard) == ([3.0, 4.0], 1, 2.0)
    asked._take("unasked", 4.0)
    assert asked.open == [3.0]
    asked._take("none", 3.0)
    assert (asked.open, asked.answers, asked.unanswered(5.0)) == ([3.0], 0, 2.0)
    asked._take("refused", 3.0)
    assert (asked.open, asked.refusals, asked.slurmd(5.0)) == ([], 1, "refused")


def test_many_silent_nodes_share_the_questions() -> None:
    asked = Questions(asked=10.0)
    assert asked.pause(10.0, 1, calm=False) == pytest.approx(questions.EAGER_SECONDS)
    assert asked.pause(10.0, 6000, calm=False) == pytest.approx(40.0)


def test_a_node_is_asked_by_address_and_not_by_name() -> None:
    assert address_of("ip-10-0-0-7", "10.0.0.7") == "10.0.0.7"
    assert address_of("127.0.0.1", "127.0.0.7") == "127.0.0.1"
    assert address_of("ip-10-0-0-7", "") == "ip-10-0-0-7"


class Link:
    """Nobody answers an echo but those named."""

    def __init__(self, *answering: str) -> None:
        self._answering = set(answering)
        self.killed: list[tuple[str, str, int, list[str]]] = []
        self.answers: list[int | None] = []

    def drop(self, node: str) -> None:
        return

    async def echo(self, nodes: Any, seconds: float) -> set[str]:
        return self._answering & set(nodes)

    async def kill_on(self, node: str, run: str, attempt: int, jobs: Any) -> int | None:
        self.killed.append((node, run, attempt, list(jobs)))
        return self.answers.pop(0) if self.answers else 0


def linked_nodes(
    tmp_path: Path, port: int, *answering: str, **changes: Any
) -> tuple[Controller, NodeParts, Link]:
    controller, link = Controller(tmp_path), Link(*answering)
    made = node_parts(
        config(tmp_path, **changes), controller.reporter, link=link, jobs=controller.attempts
    )
    made.table.take({name: SlurmNode(name, "idle", "127.0.0.1", port) for name in NODES})
    for name in NODES:
        made.registry.linked(name, name.replace("ip", "i"), "127.0.0.1")
    return controller, made, link


@pytest.mark.real
def test_a_node_whose_port_accepts_and_whose_daemons_say_nothing_is_lost(tmp_path: Path) -> None:
    async def story() -> None:
        with listening() as still:
            port = still.getsockname()[1]
            controller, made, _ = linked_nodes(tmp_path, port, NODES[0], silent_after_seconds=0.5)
            await made.silence.confirm(NODES)
            assert (made.table.suspicious(NODES[0]), made.table.suspicious(NODES[1])) == (
                False,
                True,
            ), "the other agent answered the echo"
            beating = asyncio.create_task(beat_for_ever(made, NODES[0]))
            await eventually_async("it is lost", lambda: made.table.lost(NODES[1]), 15)
            beating.cancel()
            evidence = made.table.evidence(NODES[1])
            assert (evidence.agent, evidence.scheduler) == ("silent", "down")
            assert "slurmd does not answer" in evidence.detail
            assert not made.table.suspicious(NODES[1])
            assert not made.table.lost(NODES[0])
            controller.store.close()

    asyncio.run(story())


async def beat_for_ever(made: NodeParts, name: str) -> None:
    while True:
        made.registry.beat(name, {"is": "beat"})
        await asyncio.sleep(0.05)


@pytest.mark.real
def test_a_beat_ends_every_doubt(tmp_path: Path) -> None:
    async def story() -> None:
        with listening() as still:
            _, made, _ = linked_nodes(tmp_path, still.getsockname()[1])
            await made.silence.confirm(NODES)
            assert all(map(made.table.suspicious, NODES))
            for name in NODES:
                made.registry.beat(name, {"is": "beat"})
            assert not any(map(made.table.suspicious, NODES))
            assert {made.table.evidence(name).agent for name in NODES} == {"linked"}

    asyncio.run(story())


def test_a_node_that_comes_back_is_asked_to_end_what_is_over_and_nothing_that_goes_on(
    tmp_path: Path, monkeypatch: Any
) -> None:
    other = RUN[:-1] + "z"

    async def story() -> None:
        controller, made, link = linked_nodes(tmp_path, 1)
        known = {(RUN, 1): "ended", (RUN, 2): "running", (RUN, 3): "running", (other, 1): "running"}
        controller.attempts.known = {(a.run_id, a.number): a for a in attempts_of(known)}
        made.table.nodes[NODES[0]].state = "lost"
        link.answers = [None, 6, 2]

        async def yes(_: Any) -> bool:
            return True

        monkeypatch.setattr(made.returns, "_slurmd_answers", yes)
        monkeypatch.setattr(made.returns, "_serves_again", yes)
        made.registry.linked(NODES[0], "i-2", "127.0.0.1")
        await eventually_async("it serves", lambda: made.table.serving(NODES[0]), 15)
        order = (NODES[0], RUN, 2, ["101", "102"])
        assert link.killed == [order] * 4, (
            "asked again until it found nothing more to kill; attempt 3 and the other run go on"
        )

    asyncio.run(story())


def attempts_of(known: dict[tuple[str, int], str]) -> list[Attempt]:
    return [
        Attempt(
            run,
            number,
            state,
            Path(),
            job_id=str(100 + number) if run == RUN else "900",
            nodes=NODES,
        )  # type: ignore[arg-type]
        for (run, number), state in known.items()
    ]


class Beats:
    """Notes who is linked."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def linked(self, node: str, instance_id: str, address: str) -> None:
        self.known.add(node)

    def beat(self, node: str, message: dict[str, Any]) -> None:
        return

    def unlinked(self, node: str) -> None:
        self.known.discard(node)


@pytest.mark.real
def test_an_agent_answers_an_echo_and_its_link_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        with listening() as taken:
            port = taken.getsockname()[1]
        here = {"address": "127.0.0.1", "controller_address": "127.0.0.1", "link_port": port}
        configured, beats = config(tmp_path).model_copy(update=here), Beats()
        links = Links()
        server = LinkServer(configured, b"k" * 32, links, beats)
        await server.start()
        client = asyncio.create_task(LinkClient(configured, b"k" * 32, dict, dict).run())
        await eventually_async(
            "its heartbeat is known", lambda: configured.node_name in beats.known, 15
        )
        for _ in range(2):
            assert await links.echo([configured.node_name, "ip-10-0-0-9"], 5.0) == {
                configured.node_name
            }
        assert configured.node_name in beats.known
        client.cancel()
        server.close()

    asyncio.run(story())
