"""Session Manager for local nodes: StartSession, and its data channel over a real websocket.

Commands run on the node itself.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from typing import IO, Any
from urllib.parse import urlsplit

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ssm.responses import SimpleSystemManagerResponse
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from trainyard_local.hyperpod import service as hyperpod_operations
from trainyard_local.hyperpod.cluster import LocalCluster
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes.node import Node
from trainyard_local.sessions.frames import (
    CHANNEL_CLOSED,
    FLAG_TERMINATE,
    TYPE_EXIT_CODE,
    TYPE_FLAG,
    TYPE_HANDSHAKE_COMPLETE,
    TYPE_HANDSHAKE_REQUEST,
    TYPE_HANDSHAKE_RESPONSE,
    TYPE_OUTPUT,
    TYPE_STDERR,
    Frame,
    FrameError,
    decode,
)
from trainyard_local.sessions.stream import SessionStream

DOCUMENT = "AWS-StartNonInteractiveCommand"
#: What AWS's other session documents are for.
OTHER_DOCUMENTS = {
    "SSM-SessionManagerRunShell": "an interactive shell",
    "AWS-StartInteractiveCommand": "interactive commands",
    "AWS-StartSSHSession": "SSH through a session",
    "AWS-StartPortForwardingSession": "forwarded ports",
    "AWS-StartPortForwardingSessionToRemoteHost": "forwarded ports",
    "AWS-StartPortForwardingSessionToSocket": "forwarded sockets",
}
AGENT_VERSION = "3.3.2299.0"
#: SSM's limit for StartSession, per account.
STARTS_PER_SECOND = 3
CHUNK_BYTES = 1024
OPEN_SECONDS = 10.0
HANDSHAKE_SECONDS = 15.0
FLUSH_SECONDS = 2.0
#: A command that cannot be started: the agent sends the exit code at once. Why comes a second
#: later, with the end of the channel.
START_FAILED_SECONDS = 1.0
PIPE_LOOK_SECONDS = 0.2
RESUME_SECONDS = 60.0
TARGET = re.compile(
    r"sagemaker-cluster:(?P<cluster>[a-z0-9]{12})_(?P<group>.+)-(?P<instance>i-[0-9a-f]{17})"
)
BY_NAME = re.compile(
    r"sagemaker-cluster:(?P<cluster>[A-Za-z0-9-]+)_(?P<group>.+)-(?P<instance>i-[0-9a-f]{17})"
)
#: When a fault may end a session's data channel, and how (SessionStream.cut).
CUT_MOMENTS = ("before-handshake", "before-output", "in-output", "before-exit-code")
CUT_WAYS = ("close", "drop", "silent")
SIGNALS = {b"\x03": signal.SIGINT, b"\x1c": signal.SIGQUIT, b"\x1a": signal.SIGTSTP}


class SsmError(ServiceException):  # type: ignore[misc]
    """An SSM error by its code."""


class Session:
    """One command on one node, and its data channel."""

    def __init__(
        self,
        session_id: str,
        node: Node,
        command: str,
        *,
        separate: bool,
        kms_key: str | None,
        cut: tuple[str, str] | None = None,
        tells_exit_code: bool = True,
    ) -> None:
        self.id = session_id
        self.node = node
        self.token = secrets.token_urlsafe(48)
        self.stream = SessionStream(self._input)
        self._command = command
        self._separate = separate
        self._kms_key = kms_key
        self._cut = cut
        self._handshake: dict[str, Any] | None = None
        self._answered = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting_signal: int | None = None
        self._tells_exit_code = tells_exit_code
        self._begun = False
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def renew(self) -> None:
        """The next one to open the channel has another token."""
        self.token = secrets.token_urlsafe(48)

    def begin(self) -> None:
        """Start the agent's side; only the first connection does."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
        threading.Thread(target=self._serve, daemon=True, name=f"session-{self.id}").start()

    def terminate(self) -> None:
        """Kill the command, as TerminateSession and the idle timeout do."""
        with self._lock:
            self._ended.set()
            process = self._process
        self._answered.set()
        if process is not None:
            _signal_group(process, signal.SIGKILL)
        if not self._begun:
            self.stream.close()

    # -- the agent's side -------------------------------------------------------------------------

    def _serve(self) -> None:
        self._cut_at("before-handshake")
        problem = self._shake_hands()
        if not problem and not self._ended.is_set():
            problem = self._run()
        if not self.node.powered:
            # A dead node's agent sends nothing any more; the service drops the channel.
            self.stream.close()
            return
        self.stream.drain(FLUSH_SECONDS)
        self._close_channel(problem)

    def _cut_at(self, moment: str) -> None:
        """End the data channel here if a fault says so."""
        if self._cut is not None and self._cut[0] == moment:
            self.stream.cut(self._cut[1])
            self._cut = None

    def _shake_hands(self) -> str:
        started = time.monotonic_ns()
        actions: list[dict[str, Any]] = []
        if self._kms_key:
            actions.append(
                {"ActionType": "KMSEncryption", "ActionParameters": {"KMSKeyID": self._kms_key}}
            )
        kind = {"SessionType": "NonInteractiveCommands", "Properties": {"command": self._command}}
        actions.append({"ActionType": "SessionType", "ActionParameters": kind})
        self._send_json(
            TYPE_HANDSHAKE_REQUEST,
            {"AgentVersion": AGENT_VERSION, "RequestedClientActions": actions},
        )
        if not self._answered.wait(HANDSHAKE_SECONDS):
            return (
                "Handshake timed out. "
                "Please ensure that you have the latest version of the session manager plugin."
            )
        answers = {
            action.get("ActionType"): action
            for action in (self._handshake or {}).get("ProcessedClientActions", [])
        }
        refused = [
            action["ActionType"]
            for action in actions
            if answers.get(action["ActionType"], {}).get("ActionStatus") != 1
        ]
        if refused:
            return (
                f"{refused[0]} failed on client "
                f"with status {answers.get(refused[0], {}).get('ActionStatus')}"
            )
        self._send_json(
            TYPE_HANDSHAKE_COMPLETE,
            {"HandshakeTimeToComplete": time.monotonic_ns() - started, "CustomerMessage": ""},
        )
        return ""

    def _send_json(self, payload_type: int, content: dict[str, Any]) -> None:
        self.stream.send(payload_type, json.dumps(content).encode())

    def _run(self) -> str:
        """Run the command; no shell splits it, as in the agent."""
        try:
            argv = shlex.split(self._command)
            self._start(argv)
        except (ValueError, OSError, IndexError) as error:
            return self._start_failed(error)
        assert self._process is not None
        self._cut_at("before-output")
        if self._separate:
            self._pump_separately(self._process)
        else:
            output, _ = self._process.communicate()
            self._send_chunks(TYPE_OUTPUT, output)
        return ""

    def _start(self, argv: list[str]) -> None:
        with self._lock:
            if self._ended.is_set():
                raise OSError("the session was terminated")
            stderr = subprocess.PIPE if self._separate else subprocess.STDOUT
            self._process = self.node.start(argv, stdout=subprocess.PIPE, stderr=stderr)
            if self._waiting_signal is not None:
                self._process.send_signal(self._waiting_signal)

    def _start_failed(self, error: Exception) -> str:
        message = f"Unable to start command: {error}"
        if self._separate:
            self.stream.send(TYPE_EXIT_CODE, b"EXIT_CODE: 1")
            self._ended.wait(START_FAILED_SECONDS)
        return message

    def _pump_separately(self, process: subprocess.Popen[bytes]) -> None:
        pumps = [
            threading.Thread(target=self._pump, args=(payload_type, pipe), daemon=True)
            for payload_type, pipe in ((TYPE_OUTPUT, process.stdout), (TYPE_STDERR, process.stderr))
        ]
        for pump in pumps:
            pump.start()
        code = process.wait()
        for pump in pumps:
            # As the agent does, without limit: a detached child that holds the pipe holds the
            # session.
            while pump.is_alive() and not self._ended.is_set() and self.node.powered:
                pump.join(PIPE_LOOK_SECONDS)
        self._cut_at("before-exit-code")
        if self.node.powered and self._tells_exit_code:
            # Go's ExitStatus, which the agent sends, is -1 for a process that a signal ended.
            self.stream.send(TYPE_EXIT_CODE, f"EXIT_CODE: {max(code, -1)}".encode())

    def _pump(self, payload_type: int, pipe: IO[bytes] | None) -> None:
        assert pipe is not None
        while chunk := os.read(pipe.fileno(), CHUNK_BYTES):
            if (
                payload_type == TYPE_OUTPUT
                and self._cut is not None
                and self._cut[0] == "in-output"
            ):
                half = len(chunk) // 2
                self.stream.send(payload_type, chunk[:half])
                self._cut_at("in-output")
                chunk = chunk[half:]
            self.stream.send(payload_type, chunk)

    def _send_chunks(self, payload_type: int, output: bytes) -> None:
        for start in range(0, len(output), CHUNK_BYTES):
            self.stream.send(payload_type, output[start : start + CHUNK_BYTES])

    def _close_channel(self, output: str) -> None:
        content = {
            "MessageId": str(uuid.uuid4()),
            "CreatedDate": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "DestinationId": self.id,
            "SessionId": self.id,
            "MessageType": CHANNEL_CLOSED,
            "SchemaVersion": 1,
            "Output": output,
        }
        self.stream.send_closed(Frame(CHANNEL_CLOSED, 0, json.dumps(content).encode()))
        self.stream.close()

    def _input(self, frame: Frame) -> None:
        if frame.payload_type == TYPE_HANDSHAKE_RESPONSE:
            self._handshake = json.loads(frame.payload)
            self._answered.set()
        elif (
            frame.payload_type == TYPE_FLAG
            and int.from_bytes(frame.payload, "big") == FLAG_TERMINATE
        ):
            self.terminate()
        elif frame.payload_type == TYPE_OUTPUT and frame.payload in SIGNALS:
            self._interrupt(SIGNALS[frame.payload])

    def _interrupt(self, number: int) -> None:
        """A control character from the client: the agent signals the command, not its children.

        One that comes before the command has started waits for it.
        """
        with self._lock:
            process, self._waiting_signal = self._process, number
        if process is not None:
            process.send_signal(number)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class Sessions:
    """All sessions of the local cloud, and the websocket server of their data channels."""

    def __init__(
        self, cloud: LocalCloud, clusters: hyperpod_operations.HyperPod, kms_key: str | None
    ) -> None:
        self._cloud = cloud
        self._clusters = clusters
        self._kms_key = kms_key
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._starts: deque[float] = deque(maxlen=STARTS_PER_SECOND)
        self._started = self._throttled = 0
        self._server = serve(
            self._channel,
            "127.0.0.1",
            cloud.session_port,
            compression=None,
            ping_interval=None,
            close_timeout=1,
        )
        self.port = int(self._server.socket.getsockname()[1])
        threading.Thread(target=self._server.serve_forever, daemon=True, name="sessions").start()

    def start(self, request: dict[str, Any]) -> dict[str, str]:
        self._throttle()
        _check_document(request.get("DocumentName"))
        command, separate = _parameters(request.get("Parameters") or {})
        cluster, node = self._node(str(request.get("Target", "")))
        cut = cluster.session_cuts.popleft() if cluster.session_cuts else None
        session = Session(
            f"trainyard-{secrets.token_hex(9)[:17]}",
            node,
            command,
            separate=separate,
            kms_key=self._kms_key,
            cut=cut,
            tells_exit_code="sessions-have-no-exit-code" not in self._cloud.quirks,
        )
        with self._lock:
            self._forget_old()
            self._sessions[session.id] = session
        return self._answer(session)

    def resume(self, request: dict[str, Any]) -> dict[str, str]:
        session = self._find(request["SessionId"])
        session.renew()
        return self._answer(session)

    def terminate(self, request: dict[str, Any]) -> dict[str, str]:
        session = self._find(request["SessionId"])
        session.terminate()
        return {"SessionId": session.id}

    def close(self) -> None:
        """End every session and the server."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.terminate()
            session.stream.close()
        self._server.shutdown()

    def _throttle(self) -> None:
        with self._lock:
            moment = time.monotonic()
            if len(self._starts) == STARTS_PER_SECOND and moment - self._starts[0] < 1:
                self._throttled += 1
                raise SsmError("ThrottlingException", "Rate exceeded")
            self._starts.append(moment)
            self._started += 1

    def report(self) -> dict[str, int]:
        """How many StartSession calls got through, and how many were throttled."""
        with self._lock:
            return {"started": self._started, "throttled": self._throttled}

    def _node(self, target: str) -> tuple[LocalCluster, Node]:
        by_name = "targets-have-the-name" in self._cloud.quirks
        match = (BY_NAME if by_name else TARGET).fullmatch(target)
        find = self._clusters.by_name if by_name else self._clusters.by_id
        cluster = find(match["cluster"]) if match else None
        node = cluster.nodes.get(match["instance"]) if cluster and match else None
        if (
            cluster is None
            or node is None
            or match is None
            or node.group != match["group"]
            or node.status != "Running"
            or not node.connected
        ):
            raise SsmError("TargetNotConnected", f"{target} is not connected.")
        return cluster, node

    def _find(self, session_id: str) -> Session:
        with self._lock:
            session = self._sessions.get(session_id)
        if session is None:
            raise SsmError("DoesNotExistException", f"Session {session_id} does not exist")
        return session

    def _answer(self, session: Session) -> dict[str, str]:
        url = f"ws://127.0.0.1:{self.port}/v1/data-channel/{session.id}?role=publish_subscribe"
        return {"SessionId": session.id, "TokenValue": session.token, "StreamUrl": url}

    def _forget_old(self) -> None:
        """End sessions whose client stayed away too long."""
        for session_id, session in list(self._sessions.items()):
            away = session.stream.detached_at
            if away is not None and time.monotonic() - away > RESUME_SECONDS:
                session.terminate()
                session.stream.close()
                del self._sessions[session_id]

    # -- the service's side of the websocket ------------------------------------------------------

    def _channel(self, connection: ServerConnection) -> None:
        try:
            session = self._opened(connection)
            if session is None:
                connection.close(1008, "invalid token")
                return
            session.stream.attach(connection)
            session.begin()
            self._read(connection, session)
        except (ConnectionClosed, TimeoutError):
            return

    def _opened(self, connection: ServerConnection) -> Session | None:
        """The session that the client's first frame opens.

        The frame is TEXT, with the token of StartSession or ResumeSession.
        """
        request = connection.request
        session_id = urlsplit(request.path).path.rpartition("/")[2] if request else ""
        with self._lock:
            session = self._sessions.get(session_id)
        first = connection.recv(timeout=OPEN_SECONDS)
        try:
            opening = json.loads(first) if isinstance(first, str) else {}
        except ValueError:
            return None
        token = opening.get("TokenValue") if isinstance(opening, dict) else None
        if (
            session is None
            or not isinstance(token, str)
            or not secrets.compare_digest(token.encode(), session.token.encode())
        ):
            return None
        return session

    def _read(self, connection: ServerConnection, session: Session) -> None:
        try:
            for message in connection:
                if isinstance(message, bytes):
                    session.stream.receive(decode(message))
        except (FrameError, ValueError, KeyError):
            connection.close(1003, "malformed frame")
        finally:
            session.stream.detach(connection)


def _check_document(name: str | None) -> None:
    """AWS has more documents than the local cloud does: it says of none that it does not exist."""
    if name == DOCUMENT:
        return
    if name is None or name in OTHER_DOCUMENTS:
        what = OTHER_DOCUMENTS.get(name or "", "an interactive shell")
        raise SsmError(
            "NotImplemented",
            f"the local cloud does not do {what}; "
            f"of sessions it does single commands, with {DOCUMENT}",
        )
    raise SsmError("InvalidDocument", f"Document with name {name} does not exist.")


def _parameters(given: Mapping[str, list[str]]) -> tuple[str, bool]:
    """The command, and whether standard error comes in a stream of its own."""
    if unknown := sorted(set(given) - {"command", "separateOutputStream"}):
        raise SsmError(
            "InvalidParameters",
            f"{DOCUMENT} has no parameter {', '.join(unknown)}; "
            "it has command and separateOutputStream",
        )
    if several := sorted(name for name, values in given.items() if len(values) != 1):
        raise SsmError(
            "InvalidParameters", f"Parameter {', '.join(several)} takes exactly one value"
        )
    command, separate = (
        given.get("command", [""])[0],
        given.get("separateOutputStream", ["false"])[0].lower(),
    )
    if not command:
        raise SsmError("InvalidParameters", "Parameter command is required")
    if separate not in ("true", "false"):
        raise SsmError(
            "InvalidParameters",
            f"Parameter separateOutputStream is {separate!r}; it must be true or false",
        )
    return command, separate == "true"


def install(cloud: LocalCloud, kms_key: str | None = None) -> Sessions:
    """Put sessions on moto's SSM; call after hyperpod.install.

    `kms_key` makes every session an encrypted one.
    """
    sessions = Sessions(cloud, hyperpod_operations.of(cloud), kms_key)
    assert hasattr(SimpleSystemManagerResponse, "get_document"), (
        "moto's SimpleSystemManagerResponse has changed: pin moto==5.2.5"
    )
    answers = {
        "start_session": sessions.start,
        "resume_session": sessions.resume,
        "terminate_session": sessions.terminate,
    }
    for name, answer in answers.items():
        setattr(SimpleSystemManagerResponse, name, _method(answer))
    cloud.on_shutdown.append(sessions.close)
    cloud.reporters["sessions"] = sessions.report
    return sessions


def _method(answer: Callable[[dict[str, Any]], dict[str, str]]) -> Callable[[Any], ActionResult]:
    # moto's SSM class parses no parameters by itself (unlike its SageMaker class).
    return lambda self: ActionResult(answer(json.loads(self.body)))
