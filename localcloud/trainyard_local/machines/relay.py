"""A slow and lossy wire between a machine and its bridge: the kernel here need not have netem.

It is a process of its own (`python -m trainyard_local.machines.relay LINK INNER DELAY LOSS`). In
the server each frame would wait for other work of the server, and if that takes a second, nobody
hears the machine for a second.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import select
import socket
import subprocess
import sys
import time

from trainyard_local.machines.network import ip

#: packet(7): frames travel with what the kernel left undone of them (checksums, segments), so that
#: the other side can do it.
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 3
LARGEST = 65536 + 64
#: A frame that is carried so much later than it should be is reported: then the machine here is
#: slower than the wire that it plays.
LATE_SECONDS = 0.5
END_SECONDS = 5.0
READY = "ready"


class Relay:
    """Takes the machine's link off the bridge, and carries every frame itself: late, or not at all.

    `close` puts the link back.
    """

    def __init__(self, bridge: str, link: str, delay_seconds: float, loss: float) -> None:
        self._bridge, self._link = bridge, link
        # Two more ends of a wire: one on the bridge in the link's place, the other for us.
        self._outer, inner = f"{link}o"[-15:], f"{link}i"[-15:]
        ip("link", "add", self._outer, "type", "veth", "peer", "name", inner)
        for end in (self._outer, inner):
            ip("link", "set", end, "up")
        command = [sys.executable, "-m", __name__, link, inner, str(delay_seconds), str(loss)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout
        if self._process.stdout.readline().strip() != READY:
            self._process.wait()
            raise OSError(f"the relay of {link} ended with status {self._process.returncode}")
        ip("link", "set", link, "nomaster")
        ip("link", "set", self._outer, "master", bridge)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
        for command in (
            ("link", "delete", self._outer),
            ("link", "set", self._link, "master", self._bridge),
        ):
            try:
                ip(*command)
            except subprocess.SubprocessError:
                continue  # the machine is off, and its link gone with it


def carry(link: str, inner: str, delay: float, loss: float) -> None:
    """Every frame from one end to the other, `delay` seconds later, until an end is gone.

    A share of `loss` never arrives.
    """
    ours, theirs = _tap(link), _tap(inner)
    print(READY, flush=True)
    waiting: list[tuple[float, int, socket.socket, bytes]] = []
    number, latest = 0, LATE_SECONDS
    other = {ours: theirs, theirs: ours}
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select(list(other), [], [], pause)
        for tap in readable:
            try:
                frame = tap.recv(LARGEST)
            except OSError:
                return
            if random.random() >= loss:
                number += 1
                heapq.heappush(waiting, (time.monotonic() + delay, number, other[tap], frame))
        while waiting and waiting[0][0] <= (now := time.monotonic()):
            due, _, tap, frame = heapq.heappop(waiting)
            _send(tap, frame)
            if now - due > latest:
                latest = now - due
                print(
                    f"the slow wire of {link} was itself {latest:.1f} s late",
                    file=sys.stderr,
                    flush=True,
                )


def _tap(link: str) -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    tap.bind((link, ETH_P_ALL))
    return tap


def _send(tap: socket.socket, frame: bytes) -> None:
    try:
        tap.send(frame)
    except OSError:
        pass  # a full queue, or a link that went down: lost, as on a wire


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(-10)
    carry(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
