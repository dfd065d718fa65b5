"""The client's half of a data-channel conversation without I/O, to test disorder as data."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from trainyard.aws import session_frames as frames
from trainyard.aws.session_frames import BrokenFrame, Frame

#: Old clients get a message to update instead of an exit code (HandshakeComplete for versions up to
#: 1.2.295).
CLIENT_VERSION = "1.2.650.0"
REORDER_CAPACITY = 10_000
FIRST_RESEND_SECONDS, SLOWEST_RESEND_SECONDS = 0.2, 1.0
RESEND_TRIES = 3000
#: An agent that could not start the command sends the exit code first, and its words a second
#: later.
REASON_SECONDS = 3.0

_SUCCESS, _UNSUPPORTED = 1, 3
_EXIT_CODE = re.compile(rb"EXIT_CODE:\s*(-?\d+)")


@dataclass
class _Sent:
    """An outgoing frame until the agent acknowledges it."""

    data: bytes
    due: float
    wait: float
    tries: int = 1


@dataclass
class Conversation:
    """Feeds on received frames, says what to send, and collects the command's output and exit code.

    Frames are delivered in the order of their sequence numbers whatever order they came in;
    duplicates are acknowledged again and dropped; a frame beyond the capacity of the reordering
    buffer is not acknowledged, so that the agent sends it again. A frame that cannot be read, or
    that is of an unknown kind, is passed over, as AWS's own plugin does; so is a pause, which the
    agent itself ends at our next acknowledgement.
    """

    monotonic: Callable[[], float] = time.monotonic
    exit_code: int | None = None
    closed: bool = False
    close_reason: str = ""
    encrypted: bool = False
    out_of_tries: bool = False
    unreadable: str = ""
    """What was wrong with the last frame that could not be read."""
    _ended_at: float = 0.0
    _stdout: list[bytes] = field(default_factory=list)
    _stderr: list[bytes] = field(default_factory=list)
    _expected: int = 0
    _early: dict[int, Frame] = field(default_factory=dict)
    _next_outgoing: int = 0
    _unacknowledged: dict[int, _Sent] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """The other side has sent its first frame in order."""
        return self._expected > 0

    @property
    def finished(self) -> bool:
        """Nothing more can come that matters.

        The exit code is sent after all output, but before the reason why nothing could start.
        """
        return (
            self.closed
            or self.encrypted
            or self.out_of_tries
            or (self.exit_code is not None and not self._reason_may_come)
        )

    @property
    def _reason_may_come(self) -> bool:
        silent = not self._stdout and not self._stderr
        return (
            bool(self.exit_code) and silent and self.monotonic() - self._ended_at < REASON_SECONDS
        )

    @property
    def stdout(self) -> str:
        # Decoded at the end: a chunk may end in the middle of a character.
        return b"".join(self._stdout).decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return b"".join(self._stderr).decode("utf-8", "replace")

    def receive(self, data: bytes) -> list[bytes]:
        """Take one websocket message; returns the frames to send now."""
        try:
            frame = frames.decode(data)
            if frame.message_type == frames.OUTPUT:
                return list(self._output(frame))
            if frame.message_type == frames.ACKNOWLEDGE:
                self._acknowledged(frame)
            elif frame.message_type == frames.CHANNEL_CLOSED:
                self._close(frame)
        except BrokenFrame as broken:
            self.unreadable = str(broken)
        return []

    def overdue(self) -> list[bytes]:
        """Frames to send again: unacknowledged for 0.2 s, then twice as long each, up to 1 s."""
        now, again = self.monotonic(), []
        for sent in self._unacknowledged.values():
            if sent.due <= now:
                again.append(self._again(sent, now))
        return again

    def _again(self, sent: _Sent, now: float) -> bytes:
        sent.tries += 1
        self.out_of_tries = self.out_of_tries or sent.tries > RESEND_TRIES
        sent.wait = min(sent.wait * 2, SLOWEST_RESEND_SECONDS)
        sent.due = now + sent.wait
        return sent.data

    def _output(self, frame: Frame) -> Iterator[bytes]:
        if (
            frame.sequence > self._expected
            and frame.sequence not in self._early
            and len(self._early) >= REORDER_CAPACITY
        ):
            return
        yield frames.acknowledgement(frame, _milliseconds())
        if frame.sequence < self._expected:
            return
        self._early.setdefault(frame.sequence, frame)
        while (following := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            try:
                yield from self._deliver(following)
            except BrokenFrame as broken:
                self.unreadable = str(broken)

    def _deliver(self, frame: Frame) -> Iterator[bytes]:
        match frame.payload_type:
            case frames.PAYLOAD_OUTPUT:
                self._stdout.append(frame.payload)
            case frames.PAYLOAD_STDERR | frames.PAYLOAD_ERROR:
                self._stderr.append(frame.payload)
            case frames.PAYLOAD_EXIT_CODE:
                self.exit_code = _exit_code(frame.payload)
                self._ended_at = self.monotonic()
            case frames.PAYLOAD_HANDSHAKE_REQUEST:
                yield from self._answer_handshake(frame.payload)
            case _:
                pass  # HandshakeComplete and what newer agents may add carry nothing we need

    def _answer_handshake(self, payload: bytes) -> list[bytes]:
        actions = [
            _action(action) for action in _list(_json_object(payload).get("RequestedClientActions"))
        ]
        self.encrypted = any(name == "KMSEncryption" for name in actions)
        answer = {
            "ClientVersion": CLIENT_VERSION,
            "ProcessedClientActions": [_processed(name) for name in actions],
            "Errors": [],
        }
        return self._send(frames.PAYLOAD_HANDSHAKE_RESPONSE, json.dumps(answer).encode())

    def _send(self, payload_type: int, payload: bytes) -> list[bytes]:
        data = frames.input_frame(self._next_outgoing, payload_type, payload, _milliseconds())
        due = self.monotonic() + FIRST_RESEND_SECONDS
        self._unacknowledged[self._next_outgoing] = _Sent(data, due, FIRST_RESEND_SECONDS)
        self._next_outgoing += 1
        return [data]

    def _acknowledged(self, frame: Frame) -> None:
        number = _json_object(frame.payload).get("AcknowledgedMessageSequenceNumber")
        if not isinstance(number, int):
            raise BrokenFrame("an acknowledgement names no sequence number")
        self._unacknowledged.pop(number, None)

    def _close(self, frame: Frame) -> None:
        self.closed = True
        self.close_reason = (
            str(_json_object(frame.payload).get("Output") or "") if frame.payload else ""
        )


def _processed(name: str) -> dict[str, Any]:
    if name == "SessionType":
        return {"ActionType": name, "ActionStatus": _SUCCESS, "ActionResult": None, "Error": ""}
    return {
        "ActionType": name,
        "ActionStatus": _UNSUPPORTED,
        "ActionResult": None,
        "Error": f"{name} is not supported by this client",
    }


def _action(action: object) -> str:
    name = action.get("ActionType") if isinstance(action, dict) else None
    if not isinstance(name, str):
        raise BrokenFrame("a handshake request names an action without ActionType")
    return name


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise BrokenFrame("a handshake request has no list RequestedClientActions")
    return value


def _json_object(payload: bytes) -> dict[str, Any]:
    try:
        value = json.loads(payload)
    except (ValueError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict):
        raise BrokenFrame(f"a control message carries no JSON object: {payload[:80]!r}")
    return value


def _exit_code(payload: bytes) -> int:
    found = _EXIT_CODE.search(payload)
    if found is None:
        raise BrokenFrame(
            f"the exit code message says {payload[:80]!r}; expected 'EXIT_CODE: <number>'"
        )
    return int(found.group(1))


def _milliseconds() -> int:
    return int(time.time() * 1000)
