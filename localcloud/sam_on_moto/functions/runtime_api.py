"""The Lambda Runtime API (2018-06-01) as one worker process sees it: a listener on loopback."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field

from sam_on_moto.moto_patches.quotas import MOST_ANSWER_BYTES
from sam_on_moto.wire.parsing import QuickHandler

_PREFIX = "/2018-06-01/runtime/"


@dataclass
class Invocation:
    """One call of a function; `done` is set when result or error is there."""

    payload: bytes
    deadline: float  # seconds since the epoch
    function_arn: str
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    result: bytes = b""
    failed: bool = False
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, result: bytes, *, failed: bool) -> None:
        """The first outcome counts: a worker's late answer after its timeout changes nothing."""
        if not self.done.is_set():
            self.result, self.failed = result, failed
            self.done.set()

    def answer(self, result: bytes, *, failed: bool) -> None:
        """What the function itself answered; Lambda takes no more than its limit."""
        if len(result) > MOST_ANSWER_BYTES:
            size = (
                "Response payload size exceeded maximum allowed payload size "
                f"({MOST_ANSWER_BYTES} bytes)."
            )
            self.fail("Function.ResponseSizeTooLarge", size)
        else:
            self.finish(result, failed=failed)

    def fail(self, kind: str, message: str) -> None:
        self.finish(json.dumps({"errorType": kind, "errorMessage": message}).encode(), failed=True)


class RuntimeApi:
    """Serves one worker.

    Every worker needs a port of its own: awslambdaric reports init errors to host:port, without a
    path prefix.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._inbox: queue.SimpleQueue[Invocation | None] = queue.SimpleQueue()
        self.current: Invocation | None = None
        self.ready = threading.Event()
        self.init_error: bytes | None = None
        threading.Thread(target=self._accept, daemon=True, name="runtime-api").start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def send(self, invocation: Invocation) -> None:
        self.current = invocation
        self._inbox.put(invocation)

    def forget(self) -> None:
        """The invocation has its answer, or its time is over: nothing of it is taken any more."""
        self.current = None

    def close(self) -> None:
        self._inbox.put(None)
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept, which close alone does not
        except OSError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection, address), daemon=True, name="runtime-api"
            ).start()

    def _serve(self, connection: socket.socket, address: tuple[str, int]) -> None:
        try:
            _Handler(connection, address, self)  # type: ignore[arg-type]
        except OSError:
            pass  # the worker died; its owner notices by the process
        finally:
            connection.close()

    def next_invocation(self) -> Invocation | None:
        self.ready.set()
        return self._inbox.get()

    def init_failed(self, body: bytes) -> None:
        self.init_error = body
        self.ready.set()


class _Handler(QuickHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: RuntimeApi  # type: ignore[assignment]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self) -> None:
        if self.path != _PREFIX + "invocation/next":
            self._answer(404)
            return
        invocation = self.server.next_invocation()
        if invocation is None:
            self.close_connection = True
            return
        self._answer(
            200,
            invocation.payload,
            Content_Type="application/json",
            Lambda_Runtime_Aws_Request_Id=invocation.request_id,
            Lambda_Runtime_Deadline_Ms=str(int(invocation.deadline * 1000)),
            Lambda_Runtime_Invoked_Function_Arn=invocation.function_arn,
            Lambda_Runtime_Trace_Id=(
                f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Sampled=0"
            ),
        )

    def do_POST(self) -> None:
        body = self._body()
        if self.path == _PREFIX + "init/error":
            self.server.init_failed(body)
            self._answer(202, b"{}")
            return
        parts = self.path.removeprefix(_PREFIX).split("/")
        current = self.server.current
        if len(parts) != 3 or parts[0] != "invocation" or parts[2] not in ("response", "error"):
            self._answer(404)
        elif current is None or current.request_id != parts[1]:
            self._answer(400, b'{"errorType":"InvalidRequestID"}')
        else:
            self.server.forget()
            self._answer(202, b'{"status":"OK"}')
            current.answer(body, failed=parts[2] == "error")

    def _body(self) -> bytes:
        if (self.headers.get("Transfer-Encoding") or "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)
