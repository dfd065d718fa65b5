"""Nodes that boot resolve each other and AWS's names, and nothing else."""

from __future__ import annotations

import ipaddress
import socket
import struct

import pytest

from trainyard_local.machines import names as machine_names
from trainyard_local.machines.names import Names


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    monkeypatch.setattr(socket.socket, "bind", lambda self, address: None)
    monkeypatch.setattr(machine_names.threading.Thread, "start", lambda self: None)
    return Names("10.9.8.1", ipaddress.IPv4Network("10.9.8.0/24"))


def answered(names: Names, question: bytes, asker: str = "10.9.8.10") -> tuple[int, str | None]:
    """The answer's code, and its address."""
    answer = names._answer(question, asker)
    _, flags, _, records, _, _ = struct.unpack_from("!6H", answer)
    return flags & 15, socket.inet_ntoa(answer[-4:]) if records else None


def test_nodes_and_aws_names_resolve_and_nothing_else_does(names: Names) -> None:
    assert answered(names, query("ip-10-9-8-11")) == (0, "10.9.8.11")
    assert answered(names, query("ip-10-9-8-11.ec2.internal")) == (0, "10.9.8.11")
    assert answered(names, query("fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com")) == (
        0,
        "10.9.8.1",
    )
    assert answered(names, query("ip-10-9-9-11"))[0] == machine_names.NXDOMAIN
    assert answered(names, query("ip-999-9-8-1"))[0] == machine_names.NXDOMAIN
    assert answered(names, query("index.example"))[0] == machine_names.NXDOMAIN
    assert answered(names, query("ip-10-9-8-11", kind=28)) == (0, None), "no IPv6 address"


def test_an_answer_that_cannot_be_sent_does_not_end_the_resolver(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Line:
        """One asker is unreachable, then another one asks, then the resolver is closed."""

        def __init__(self) -> None:
            self.questions = iter(
                [
                    (query("ip-10-9-8-11"), ("10.9.8.10", 1)),
                    (query("ip-10-9-8-11"), ("10.9.8.12", 1)),
                ]
            )
            self.answered: list[str] = []

        def recvfrom(self, _size: int) -> tuple[bytes, tuple[str, int]]:
            if question := next(self.questions, None):
                return question
            raise OSError("closed")

        def sendto(self, _answer: bytes, peer: tuple[str, int]) -> None:
            if peer[0] == "10.9.8.10":
                raise OSError("no route to host")
            self.answered.append(peer[0])

    line = Line()
    monkeypatch.setattr(names, "_socket", line)
    names._serve()
    assert line.answered == ["10.9.8.12"]


def test_nothing_resolves_on_a_node_that_has_just_booted(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(machine_names.time, "monotonic", lambda: now)
    names.booted("10.9.8.10")
    assert answered(names, query("ip-10-9-8-11"))[0] == machine_names.SERVFAIL
    assert answered(names, query("ip-10-9-8-11"), asker="10.9.8.12") == (0, "10.9.8.11"), (
        "another node's resolver is up"
    )
    now += machine_names.LATE_SECONDS + 0.1
    assert answered(names, query("ip-10-9-8-11")) == (0, "10.9.8.11")
