"""Adds up a short vector over all ranks in microseconds, for models so small that the ordinary
all-reduce costs more than their training.

Within a node the ranks share a page of memory; between nodes the first rank of each sends the rows
of its node to the first rank of every other. Every rank then adds all rows in the order of ranks,
so the sum has the same bits on every rank and however the ranks are placed.
"""

from __future__ import annotations

import mmap
import os
import platform
import secrets
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist

from ..common.agreement import exchange
from ..parallel import node_memory
from .looks import Looks

#: A reduction that takes longer than this has lost a rank that nobody saw dying; the process
#: group's own time, too.
DEADLINE_SECONDS = 300.0
#: What one node sends another at a step must fit into a socket's buffers: all send before any
#: receives.
_MOST_BYTES = 32768
#: How long a rank sleeps that has looked often enough (looks.py), and longer each time.
_NAP_SECONDS, _LONGEST_NAP_SECONDS = 0.0001, 0.001
_LOOK_SECONDS = 0.05
#: A launcher that looks every 0.05 s shall see the rank that died before it sees those that fail
#: because of it.
_CAUSE_FIRST_SECONDS = 0.3
_CONNECT_SECONDS = 60.0
_FLOAT, _LINE, _TOKEN_BYTES = 4, 64, 16


class Vector:
    """`width` numbers of float32, as a tensor and as plain numbers: reading or writing one of these
    costs a tenth of a tensor's item.
    """

    def __init__(self, width: int) -> None:
        memory = bytearray(width * _FLOAT)
        self.tensor = torch.frombuffer(memory, dtype=torch.float32)
        self.bytes = memoryview(memory)
        self.numbers = self.bytes.cast("f")


class Reduction(Protocol):
    """Fill `mine`, call `add_up` on every rank, and read `total`."""

    mine: Vector
    total: Vector

    def add_up(self) -> None:
        """Put the sum of all ranks' `mine` into `total`.

        Raises ConnectionError when another rank is gone, TimeoutError when it hangs.
        """

    def close(self) -> None:
        """Let go of memory and connections."""


class Gathered:
    """The same sum, bit for bit, by the process group's all-gather: where the ranks of a node
    cannot share memory.
    """

    def __init__(self, width: int) -> None:
        self.mine, self.total = Vector(width), Vector(width)
        self._rows = [torch.zeros(width) for _ in range(dist.get_world_size())]

    def add_up(self) -> None:
        dist.all_gather(self._rows, self.mine.tensor)
        torch.sum(torch.stack(self._rows), 0, out=self.total.tensor)

    def close(self) -> None:
        """Close nothing: this reduction holds nothing."""


@dataclass(frozen=True)
class Place:
    """This rank's place: `nodes` has the ranks of every node, `pids` the process of every rank."""

    rank: int
    nodes: tuple[range, ...]
    pids: tuple[int, ...]

    @property
    def node(self) -> int:
        return next(number for number, ranks in enumerate(self.nodes) if self.rank in ranks)

    @property
    def ranks(self) -> range:
        """The ranks of this node."""
        return self.nodes[self.node]

    @property
    def leads(self) -> bool:
        """Whether this rank speaks for its node."""
        return self.rank == self.ranks[0]


class NotHere(Exception):
    """This machine cannot do it; the message says why."""


def connect(width: int) -> Reduction:
    """The fastest reduction of `width` numbers that all ranks can take part in.

    Collective, after the process group is there.
    """
    if dist.get_world_size() > 1 and dist.get_backend() != "gloo":
        return Gathered(width)
    try:
        return Shared(width, find_place())
    except NotHere as reason:
        if dist.get_rank() == 0:
            print(
                f"trainyard: gradients are added up by gloo, which is slower: {reason}",
                file=sys.stderr,
                flush=True,
            )
        return Gathered(width)


def find_place() -> Place:
    """Who is on which node. Collective. Raises NotHere on every rank alike."""
    ranks = exchange([node_memory.node(), os.getpid(), platform.machine()])
    if others := sorted({machine for _, _, machine in ranks} - {"x86_64"}):
        # Rows and the marks that announce them are plain stores: only x86 shows them to other cores
        # in the order they were made.
        raise NotHere(f"shared memory is used on x86_64 only, and this is {', '.join(others)}")
    starts = [
        rank for rank, (node, _, _) in enumerate(ranks) if rank == 0 or ranks[rank - 1][0] != node
    ]
    nodes = tuple(
        range(start, end) for start, end in zip(starts, [*starts[1:], len(ranks)], strict=True)
    )
    if len({node for node, _, _ in ranks}) != len(nodes):
        raise NotHere("the ranks of a node do not follow each other; start them node by node")
    return Place(dist.get_rank(), nodes, tuple(pid for _, pid, _ in ranks))


class Shared:
    """Rows of all ranks in memory that the ranks of a node share.

    Rows and marks exist twice, for even and odd steps. A rank that is a step ahead writes to the
    other half, and it cannot be two ahead: for that it would need the row of the very rank that
    still reads. So nobody waits for readers, and a mark is a byte that counts steps.
    """

    def __init__(self, width: int, place: Place) -> None:
        self.mine, self.total = Vector(width), Vector(width)
        self._place = place
        self._step = 0
        self._first = place.ranks[0]
        self._looks = Looks(len(place.ranks), len(os.sched_getaffinity(0)))
        self._links: Links | None = None
        self._peers: Peers | None = None
        self._lay_out(width)
        self._memory: mmap.mmap | None = None
        self._descriptor: int | None = None
        errors = [
            f"rank {rank}: {text}" for rank, text in enumerate(exchange(self._set_up())) if text
        ]
        if self._descriptor is not None:
            os.close(self._descriptor)  # by now every rank of the node has mapped it
        if errors:
            self.close()
            raise NotHere("; ".join(errors))

    # -- setting up -------------------------------------------------------------------------------
    def _lay_out(self, width: int) -> None:
        """Offsets in bytes: token, marks of the ranks (twice), mark of the other nodes' rows
        (twice), rows (twice).
        """
        world = len(self._place.pids)
        self._row_bytes = width * _FLOAT
        self._marks = [node_memory.START, node_memory.START + _lines(world)]
        self._done = [self._marks[1] + _lines(world), self._marks[1] + _lines(world) + _LINE]
        self._rows = [
            self._done[1] + _LINE,
            self._done[1] + _LINE + _lines(world * self._row_bytes),
        ]
        self._size = self._rows[1] + _lines(world * self._row_bytes)
        self._shape = (world, width)

    def _set_up(self) -> str:
        """Map the node's memory and connect the nodes; returns what went wrong.

        Every rank takes part in the exchanges, whatever fails.
        """
        links: Links | None = None
        offer: dict[str, Any] = {}
        try:
            if (
                max(len(ranks) for ranks in self._place.nodes) * self._row_bytes > _MOST_BYTES
                and len(self._place.nodes) > 1
            ):
                raise NotHere(
                    f"{self._row_bytes} bytes a rank are too much for one message a step between "
                    "nodes"
                )
            if self._place.leads:
                self._descriptor, offer = node_memory.create("trainyard-allreduce", self._size)
                links = Links(self._place) if len(self._place.nodes) > 1 else None
        except (OSError, AttributeError, NotHere) as error:
            offer = {"error": str(error)}
        offers = exchange({**offer, **(links.offer if links else {})})
        try:
            if failed := next((found["error"] for found in offers if "error" in found), None):
                raise NotHere(failed)
            self._map(offers[self._place.ranks[0]])
            self._peers = Peers(self._place)
            if links is not None:
                links.connect([offers[ranks[0]] for ranks in self._place.nodes])
        except (OSError, ValueError, AttributeError, NotHere) as error:
            return str(error)
        finally:
            self._links = links
        return ""

    def _map(self, offer: dict[str, Any]) -> None:
        memory = self._memory = node_memory.attach(offer, self._size)
        self._view = memoryview(memory)
        world, width = self._shape
        self._tables = [
            torch.frombuffer(memory, dtype=torch.float32, count=world * width, offset=at).view(
                world, width
            )
            for at in self._rows
        ]
        ranks, own = self._place.ranks, self._place.rank
        self._mine = [
            self._view[at + own * self._row_bytes :][: self._row_bytes] for at in self._rows
        ]
        self._arrived = [
            self._view[at + ranks[0] : at + ranks[0] + len(ranks)] for at in self._marks
        ]
        self._waited = (
            self._arrived
            if len(self._place.nodes) == 1
            else [self._view[at : at + 1] for at in self._done]
        )

    def close(self) -> None:
        """Let go of connections; the memory goes with the last rank that has it."""
        if self._links is not None:
            self._links.close()
        if self._peers is not None:
            self._peers.close()

    # -- every step -------------------------------------------------------------------------------
    def add_up(self) -> None:
        self._step += 1
        half, mark = (
            self._step & 1,
            (self._step // 2 + 1) % 256,
        )  # not 0 at first: that is what new memory holds
        self._mine[half][:] = self.mine.bytes
        self._arrived[half][self._place.rank - self._first] = mark
        if self._links is not None:
            self._await(self._arrived[half], mark)
            self._links.trade(self._view, self._rows[half], self._row_bytes)
            self._waited[half][0] = mark
        else:
            self._await(self._waited[half], mark)
        torch.sum(self._tables[half], 0, out=self.total.tensor)

    def _await(self, marks: memoryview, mark: int) -> None:
        expected = bytes([mark]) * len(marks)
        began = time.monotonic()
        for _ in range(self._looks.count):
            if marks == expected:
                break
            os.sched_yield()
        looked = time.monotonic()
        self._looks.took(looked - began)
        nap, began = _NAP_SECONDS, looked
        while marks != expected:
            time.sleep(nap)
            nap, now = min(nap * 1.2, _LONGEST_NAP_SECONDS), time.monotonic()
            if now - looked > _LOOK_SECONDS:
                looked = now
                self._look_around(marks, expected, now - began)

    def _look_around(self, marks: memoryview, expected: bytes, waited: float) -> None:
        """After a while of waiting, check that all other ranks are still there."""
        if self._peers is not None:
            self._peers.check()
        if waited > DEADLINE_SECONDS:
            raise TimeoutError(
                f"timed out waiting {DEADLINE_SECONDS:.0f} s for {self._missing(marks, expected)}"
            )

    def _missing(self, marks: memoryview, expected: bytes) -> str:
        if len(marks) != len(self._place.ranks):
            return f"rank {self._place.ranks[0]} and the other nodes"
        late = [
            str(rank)
            for rank, seen, due in zip(self._place.ranks, marks, expected, strict=True)
            if seen != due
        ]
        return f"rank {', '.join(late)}"


def _lines(size: int) -> int:
    """Bytes in whole cache lines."""
    return -(-size // _LINE) * _LINE


class Peers:
    """The other ranks of this node; the kernel reports when one of them ends."""

    def __init__(self, place: Place) -> None:
        self._ranks = {
            os.pidfd_open(place.pids[rank]): rank for rank in place.ranks if rank != place.rank
        }
        self._poll = select.poll()
        for descriptor in self._ranks:
            self._poll.register(descriptor, select.POLLIN)

    def check(self) -> None:
        """Check that all are there. Raises ConnectionError when one is gone."""
        if gone := [str(self._ranks[descriptor]) for descriptor, _ in self._poll.poll(0)]:
            time.sleep(_CAUSE_FIRST_SECONDS)
            raise ConnectionError(
                f"connection closed by peer: rank {', '.join(gone)} of this node is gone"
            )

    def close(self) -> None:
        for descriptor in self._ranks:
            os.close(descriptor)


class Links:
    """Connections of a node's first rank to the first ranks of all other nodes."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._own = place.node
        self._token = secrets.token_bytes(_TOKEN_BYTES)
        self._sockets: dict[int, socket.socket] = {}
        self._server = socket.create_server((_own_address(), 0), family=_family())
        self.offer = {
            "address": self._server.getsockname()[0],
            "port": self._server.getsockname()[1],
            "secret": self._token.hex(),
        }

    def connect(self, offers: Sequence[dict[str, Any]]) -> None:
        """Connect to the nodes before this one, and let those after it connect. Raises OSError."""
        for node in range(self._own):
            link = socket.create_connection(
                (offers[node]["address"], offers[node]["port"]), _CONNECT_SECONDS
            )
            link.sendall(bytes.fromhex(offers[node]["secret"]) + self._own.to_bytes(4, "big"))
            self._keep(node, link)
        self._server.settimeout(_CONNECT_SECONDS)
        while len(self._sockets) < len(offers) - 1:
            self._accept()
        self._server.close()

    def _accept(self) -> None:
        """Accept a node's connection. One without the secret of this attempt is closed, such as
        that of an earlier attempt's process.
        """
        link, _ = self._server.accept()
        link.settimeout(_CONNECT_SECONDS)
        hello = link.recv(_TOKEN_BYTES + 4, socket.MSG_WAITALL)
        node = int.from_bytes(hello[_TOKEN_BYTES:], "big")
        if not secrets.compare_digest(
            hello[:_TOKEN_BYTES], self._token
        ) or not self._own < node < len(self._place.nodes):
            link.close()
            return
        self._keep(node, link)

    def _keep(self, node: int, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        link.settimeout(DEADLINE_SECONDS)
        self._sockets[node] = link

    def trade(self, memory: memoryview, at: int, row_bytes: int) -> None:
        """Send this node's rows and take in those of the others; the rows of all ranks begin `at`
        in the memory.
        """
        nodes = self._place.nodes
        parts = [
            memory[at + ranks[0] * row_bytes : at + (ranks[-1] + 1) * row_bytes] for ranks in nodes
        ]
        for node, link in self._sockets.items():
            self._or_gone(node, link.sendall, parts[self._own])
        for node, link in self._sockets.items():
            part = parts[node]
            while part:
                count = self._or_gone(node, link.recv_into, part)
                if not count:
                    raise ConnectionError(f"connection closed by peer: {self._named(node)} is gone")
                part = part[count:]

    def _or_gone(self, node: int, work: Any, part: memoryview) -> int:
        try:
            return int(work(part) or 0)
        except TimeoutError as error:
            raise TimeoutError(
                f"timed out waiting {DEADLINE_SECONDS:.0f} s for {self._named(node)}"
            ) from error
        except OSError as error:
            raise ConnectionError(
                f"connection closed by peer: {self._named(node)} is gone ({error})"
            ) from error

    def _named(self, node: int) -> str:
        ranks = self._place.nodes[node]
        return f"the node of rank {ranks[0]}" + (f" to {ranks[-1]}" if len(ranks) > 1 else "")

    def close(self) -> None:
        for link in [self._server, *self._sockets.values()]:
            link.close()


def _master() -> tuple[Any, ...]:
    host = os.environ.get("MASTER_ADDR", "")
    if not host:
        raise NotHere("MASTER_ADDR is not set, so the nodes cannot find each other")
    return socket.getaddrinfo(
        host, int(os.environ.get("MASTER_PORT") or 1), type=socket.SOCK_DGRAM
    )[0]


def _family() -> int:
    return int(_master()[0])


def _own_address() -> str:
    """The address from which this node reaches the first one: loopback where everything runs on one
    machine.
    """
    family, kind, _, _, address = _master()
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
