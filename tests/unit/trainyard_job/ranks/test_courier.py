"""Ranks of hosts that share no filesystem: they meet, and their files come to the first host."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually

from trainyard_container.courier_server import CourierServer
from trainyard_job.checkpoints import checkpoint, saving
from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import CheckpointFailed, ConfigError
from trainyard_job.ranks import courier, wire
from trainyard_job.ranks.courier import Address, Courier, CourierBoard, CourierCarrier
from trainyard_job.ranks.meeting import Meeting
from trainyard_job.ranks.place import Place

KEY = b"k" * 32
pytestmark = pytest.mark.real  # sockets and threads


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Hosts:
    """Three ranks on three hosts, each with a run directory of its own."""

    def __init__(self, folder: Path, world: int = 3) -> None:
        self.folder, self.world = folder, world
        self.address = Address("127.0.0.1", free_port(), KEY)
        self.server = CourierServer(self.run_dir(0), KEY).start("127.0.0.1", self.address.port)
        self.couriers: list[Courier] = []

    def run_dir(self, host: int) -> Path:
        return self.folder / f"host-{host}" / "run"

    def attempt(self, host: int) -> Attempt:
        run = self.run_dir(host)
        run.mkdir(parents=True, exist_ok=True)
        return Attempt("run-1", 1, run, run / "attempts/1", run / "checkpoints")

    def courier(self) -> Courier:
        made = Courier(self.address, connect_seconds=10)
        self.couriers.append(made)
        return made

    def meeting(self, rank: int, seconds: float = 20.0) -> Meeting:
        to = self.courier()
        carrier = CourierCarrier(to, self.run_dir(rank), f"algo-{rank + 1}") if rank else None
        board = CourierBoard(to, rank, carrier)
        place = Place(rank, self.world)
        return Meeting(self.run_dir(rank), place, wait_seconds=seconds, board=board)

    def together(self, work: Any) -> list[Any]:
        """Of all ranks at once; what each returned or raised."""

        def one(rank: int) -> Any:
            try:
                return work(rank)
            except (CheckpointFailed, RuntimeError) as error:
                return error

        with ThreadPoolExecutor(self.world) as pool:
            return list(pool.map(one, range(self.world)))


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path)
    yield made
    for one in made.couriers:
        one.close()


def test_ranks_of_three_hosts_agree(hosts: Hosts) -> None:
    def work(rank: int) -> Any:
        meeting = hosts.meeting(rank)
        meeting.join(lambda: None)
        return [meeting.agree(f"round {number}", rank, sum) for number in range(20)]

    assert hosts.together(work) == [[3] * 20] * 3


def test_a_rank_that_came_before_the_board_was_cleared_begins_again(hosts: Hosts) -> None:
    early, first = (CourierBoard(hosts.courier(), rank, None) for rank in (1, 0))
    early.open_own()
    first.clear()
    early.append(b"hello\n")
    assert not early.has_own()
    assert first.reader(1)() is None


def save(hosts: Hosts, shared: bool, fails: int | None, rank: int) -> None:
    meeting, attempt = hosts.meeting(rank), hosts.attempt(rank)
    meeting.join(lambda: attempt.checkpoint_dir.mkdir(parents=True, exist_ok=True))
    name = checkpoint.checkpoint_name(7, 1)
    target = saving.Target(attempt.checkpoint_dir / name, 7, shared=shared)
    with saving.saving(attempt, meeting, target) as directory:
        if rank == fails:
            raise RuntimeError("this rank cannot write")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"rank-{rank}").write_text(f"of {rank}")
        (directory / "deep").mkdir(exist_ok=True)
        (directory / "deep" / f"{rank}").write_bytes(bytes([rank]) * 3_000_000)


@pytest.mark.parametrize("shared", [False, True])
def test_a_checkpoint_of_three_hosts_is_whole_on_the_first(hosts: Hosts, shared: bool) -> None:
    assert hosts.together(partial(save, hosts, shared, None)) == [None, None, None]

    [made] = (hosts.run_dir(0) / "checkpoints").iterdir()
    assert checkpoint.verify(made, run_id="run-1").world_size == 3
    found = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    every = {name for rank in range(3) for name in (f"rank-{rank}", f"deep/{rank}")}
    assert found == every | {"manifest.json"}
    left = [path for rank in (1, 2) for path in hosts.run_dir(rank).rglob("rank-*")]
    assert left == []


@pytest.mark.parametrize("shared", [False, True])
def test_a_rank_that_fails_fails_all_and_nothing_is_committed(hosts: Hosts, shared: bool) -> None:
    first, second, failed = hosts.together(partial(save, hosts, shared, 2))
    assert isinstance(first, CheckpointFailed)
    assert isinstance(second, CheckpointFailed)
    assert isinstance(failed, RuntimeError)
    found = list((hosts.run_dir(0) / "checkpoints").iterdir())
    assert [path for path in found if checkpoint.parse_name(path.name)] == []


def test_a_process_that_is_killed_is_seen_to_be_gone(hosts: Hosts) -> None:
    hosts.world = 2
    first = hosts.meeting(0)
    ready, come = os.pipe()
    pid = os.fork()
    if pid == 0:
        second = hosts.meeting(1)
        second.join(lambda: None)
        os.write(come, b"1")
        signal.pause()
    first.join(lambda: None)
    os.read(ready, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with pytest.raises(CheckpointFailed, match="rank 1 ended before it came to the vote"):
        first.agree("the vote", 1, sum)


def test_a_caller_without_the_key_is_heard_by_nobody(hosts: Hosts) -> None:
    stranger = Courier(Address("127.0.0.1", hosts.address.port, b"x" * 32), connect_seconds=0)
    with pytest.raises(ConnectionError):
        stranger.ask({"do": "note", "name": "over", "value": 1})
    with pytest.raises(ConnectionError):  # and it is not tried again
        stranger.ask({"do": "note", "name": "over", "value": 1})
    assert hosts.server.notes.read("over") is None


def test_a_frame_that_was_changed_on_its_way_ends_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(wire.answer, theirs, KEY)
        calling = wire.call(ours, KEY)
        answered = answering.result()
    calling.send({"a": 1})
    assert answered.receive() == {"a": 1}
    frame = bytearray()
    calling._connection = type("Tap", (), {"sendall": lambda _self, data: frame.extend(data)})()
    calling.send({"a": 2})
    frame[-2] ^= 1
    ours.sendall(bytes(frame))
    with pytest.raises(wire.NotOurs):
        answered.receive()


@pytest.mark.parametrize(
    "path", ["checkpoints/step-1/model", "../x/.tmp-a/f", "/tmp/.tmp-a/f", ".tmp-a", "work/x"]
)
def test_only_files_of_an_unfinished_checkpoint_are_taken(
    hosts: Hosts, tmp_path: Path, path: str
) -> None:
    (tmp_path / "file").write_bytes(b"1" * 100)
    to = hosts.courier()
    with pytest.raises(OSError, match="no file of a checkpoint that is being written"):
        to.put(tmp_path / "file", path)
    assert to.ask({"do": "marked", "name": "m"}) == {"marked": False}  # the connection goes on


def test_notes_of_hosts_and_that_one_is_gone(hosts: Hosts) -> None:
    other = hosts.courier()
    other.ask({"do": "host", "name": "algo-2"})
    other.ask({"do": "note", "name": "end/algo-2", "value": {"code": 1}})
    assert hosts.server.notes.read("end/algo-2") == {"code": 1}
    assert hosts.server.gone == set()
    other.close()
    eventually("the host counts as gone", lambda: hosts.server.gone == {"algo-2"})


def test_variables_that_do_not_fit_are_named(tmp_path: Path) -> None:
    assert Address.from_environment({}) is None
    with pytest.raises(ConfigError, match="TRAINYARD_COURIER: 'algo-1' is no HOST:PORT"):
        Address.from_environment({courier.ADDRESS: "algo-1"})
    with pytest.raises(ConfigError, match="TRAINYARD_COURIER_KEY_FILE"):
        Address.from_environment({courier.ADDRESS: "algo-1:1", courier.KEY_FILE: str(tmp_path)})
