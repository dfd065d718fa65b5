"""Words between hosts: whoever waits for one holds up nobody who has something to say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.waiting import eventually

from trainyard_container.courier_server import CourierServer
from trainyard_container.links import First, Link, Other, Watch
from trainyard_job.ranks.courier import Address, Courier

KEY = b"1f" * 16
pytestmark = pytest.mark.real  # a server on loopback


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[CourierServer, Other]]:
    """The first host's courier, and another host that came."""
    port = free_port()
    server = CourierServer(tmp_path, KEY).start("127.0.0.1", port)
    courier = Courier(Address("127.0.0.1", port, KEY))
    courier.ask({"do": "host", "name": "algo-2"})
    yield server, Other(courier, "algo-1")
    courier.close()


def test_a_word_is_said_while_somebody_else_waits(hosts: tuple[CourierServer, Other]) -> None:
    server, other = hosts
    heard: list[object] = []
    waits = threading.Thread(target=lambda: heard.append(other.apart().read("late", wait=60)))
    waits.start()
    for number in range(3):
        other.note("said", number)
        assert server.notes.read("said") == number
    assert waits.is_alive()
    assert heard == []
    server.notes.note("late", "now")
    waits.join()
    assert heard == ["now"]


def test_what_is_watched_for_is_seen_on_every_host(hosts: tuple[CourierServer, Other]) -> None:
    server, other = hosts
    links: list[Link] = [First(server), other]
    watches = [Watch(link, "failed") for link in links]
    assert not any(watch.word.is_set() for watch in watches)
    other.note("failed", "algo-2")
    eventually("both have heard it", lambda: all(watch.word.is_set() for watch in watches))


def test_a_host_is_gone_with_its_own_connection_and_with_no_other(
    hosts: tuple[CourierServer, Other],
) -> None:
    server, other = hosts
    apart = other.apart()
    assert apart.read("nothing") is None
    assert isinstance(apart, Other)
    apart._courier.close()
    assert server.notes.read("nothing") is None
    assert First(server).lost() == []
    other._courier.close()
    eventually("the host is gone", lambda: First(server).lost() == ["algo-2"])
