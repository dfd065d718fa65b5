"""A slow and lossy wire between a machine and its bridge: the kernel here need not have netem."""

from __future__ import annotations

import heapq
import random
import select
import socket
import subprocess
import threading
import time

from .machine_network import ip

#: packet(7): frames travel with what the kernel left undone of them (checksums, segments), so that the other side can do it.
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 3
LARGEST = 65536 + 64


class Relay:
    """Takes the machine's link off the bridge and carries every frame by hand, late, or not at all. `close` puts it back."""

    def __init__(self, bridge: str, link: str, delay_seconds: float, loss: float) -> None:
        self._bridge, self._link = bridge, link
        self._delay, self._loss = delay_seconds, loss
        # Two more ends of a wire: one on the bridge in the link's place, the other for us.
        self._outer, self._inner = f"{link}o"[-15:], f"{link}i"[-15:]
        ip("link", "add", self._outer, "type", "veth", "peer", "name", self._inner)
        for end in (self._outer, self._inner):
            ip("link", "set", end, "up")
        self._ours, self._theirs = _tap(link), _tap(self._inner)
        ip("link", "set", link, "nomaster")
        ip("link", "set", self._outer, "master", bridge)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True, name="relay")
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._ours.close()
        self._theirs.close()
        for command in (("link", "delete", self._outer), ("link", "set", self._link, "master", self._bridge)):
            try:
                ip(*command)
            except subprocess.SubprocessError:
                continue  # the machine is off, and its link gone with it

    def _carry(self) -> None:
        waiting: list[tuple[float, int, socket.socket, bytes]] = []
        number = 0
        other = {self._ours: self._theirs, self._theirs: self._ours}
        while not self._ended.is_set():
            pause = max(0.0, min(0.1, waiting[0][0] - time.monotonic())) if waiting else 0.1
            readable, _, _ = select.select(list(other), [], [], pause)
            for tap in readable:
                try:
                    frame = tap.recv(LARGEST)
                except OSError:
                    return
                if random.random() >= self._loss:
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + self._delay, number, other[tap], frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _send(waiting[0][2], waiting[0][3])
                heapq.heappop(waiting)


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
