"""A session's reliable stream to its client: sequence numbers, acknowledgements, resend.

Its connection may come and go.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection

from trainyard_local.sessions.frames import ACK_FLAGS, ACKNOWLEDGE, INPUT, OUTPUT, Frame

FIRST_RESEND_SECONDS = 0.2
LAST_RESEND_SECONDS = 1.0
CHECK_SECONDS = 0.1
WINDOW = 1000
REORDER_LIMIT = 10_000


@dataclass
class _Unacknowledged:
    data: bytes
    sent_at: float
    timeout: float = FIRST_RESEND_SECONDS


class SessionStream:
    """Both directions of one data channel, seen from the node's agent.

    `on_input` gets input frames once, in order.
    """

    def __init__(self, on_input: Callable[[Frame], None]) -> None:
        self._on_input = on_input
        self._condition = threading.Condition()
        self._connection: ServerConnection | None = None
        self._unacknowledged: dict[int, _Unacknowledged] = {}
        self._next_out = 0
        self._next_in = 0
        self._early: dict[int, Frame] = {}
        self._closed = False
        self._silent = False
        self.detached_at: float | None = time.monotonic()
        threading.Thread(target=self._resend, daemon=True, name="session-resend").start()

    def attach(self, connection: ServerConnection) -> None:
        """Use this connection from now on, and send again what the client has not acknowledged."""
        with self._condition:
            self._connection, self.detached_at = connection, None
            waiting = [entry.data for _, entry in sorted(self._unacknowledged.items())]
        for data in waiting:
            self._transmit(data)

    def detach(self, connection: ServerConnection) -> None:
        """The connection is gone; the session lives on and may be resumed."""
        with self._condition:
            if self._connection is connection:
                self._connection, self.detached_at = None, time.monotonic()

    def send(self, payload_type: int, payload: bytes) -> None:
        """Queue one output frame.

        Blocks while the client is too far behind; returns at once when the stream is closed.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._closed or len(self._unacknowledged) < WINDOW)
            if self._closed:
                return
            frame = Frame(
                OUTPUT, self._next_out, payload, payload_type, flags=1 if self._next_out == 0 else 0
            )
            self._next_out += 1
            data = frame.encode()
            self._unacknowledged[frame.sequence] = _Unacknowledged(data, time.monotonic())
        self._transmit(data)

    def send_closed(self, frame: Frame) -> None:
        """The service's last frame: it is not acknowledged, so it is not sent again."""
        self._transmit(frame.encode())

    def receive(self, frame: Frame) -> None:
        """Take one frame from the client."""
        if frame.message_type == ACKNOWLEDGE:
            self._acknowledged(int(json.loads(frame.payload)["AcknowledgedMessageSequenceNumber"]))
        elif frame.message_type == INPUT:
            self._take_input(frame)

    def _acknowledged(self, sequence: int) -> None:
        with self._condition:
            self._unacknowledged.pop(sequence, None)
            self._condition.notify_all()

    def _take_input(self, frame: Frame) -> None:
        self._acknowledge(frame)
        if frame.sequence < self._next_in or len(self._early) >= REORDER_LIMIT:
            return
        self._early[frame.sequence] = frame
        while self._next_in in self._early:
            ready = self._early.pop(self._next_in)
            self._next_in += 1
            self._on_input(ready)

    def _acknowledge(self, frame: Frame) -> None:
        content = {
            "AcknowledgedMessageType": frame.message_type,
            "AcknowledgedMessageId": str(frame.message_id),
            "AcknowledgedMessageSequenceNumber": frame.sequence,
            "IsSequentialMessage": True,
        }
        self._transmit(
            Frame(ACKNOWLEDGE, 0, json.dumps(content).encode(), flags=ACK_FLAGS).encode()
        )

    def drain(self, seconds: float) -> bool:
        """Wait until everything is acknowledged; False if it was not in time."""
        with self._condition:
            return self._condition.wait_for(
                lambda: self._closed or not self._unacknowledged, seconds
            )

    def cut(self, how: str) -> None:
        """A fault: `close` ends the websocket properly, `drop` its TCP connection.

        From `silent` on nothing is sent any more.
        """
        with self._condition:
            connection = self._connection
            self._silent = how == "silent"
        if connection is not None and how == "close":
            connection.close()
        if connection is not None and how == "drop":
            connection.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the stream and its connection."""
        with self._condition:
            self._closed = True
            connection, self._connection = self._connection, None
            self._condition.notify_all()
        if connection is not None and not self._silent:
            connection.close()

    def _transmit(self, data: bytes) -> None:
        with self._condition:
            connection = self._connection
        if connection is None or self._silent:
            return
        try:
            connection.send(data)
        except (ConnectionClosed, OSError):
            self.detach(connection)

    def _resend(self) -> None:
        while True:
            with self._condition:
                if self._condition.wait_for(lambda: self._closed, CHECK_SECONDS):
                    return
                moment = time.monotonic()
                due = [
                    entry
                    for _, entry in sorted(self._unacknowledged.items())
                    if moment - entry.sent_at > entry.timeout
                ]
                for entry in due:
                    entry.sent_at, entry.timeout = (
                        moment,
                        min(entry.timeout * 2, LAST_RESEND_SECONDS),
                    )
            for entry in due:
                self._transmit(entry.data)
