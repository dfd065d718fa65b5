"""Keeps real Lambda runtime processes: `python -m awslambdaric` with the function's code and role.

They have the function's layers and environment, too. The interpreter is the local cloud's own, so
what a layer's requirements.txt names must be installed beside it. The layers' own code is unpacked
as SAM would build it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sam_on_moto.functions.runtime_api import Invocation, RuntimeApi

#: A busy worker is usually free again sooner than a new interpreter starts, and starting one takes
#: the CPU from all others.
PATIENCE_SECONDS = 0.3
INIT_SECONDS = 30.0  # Lambda allows 10; two busy cores that start everything at once need more
END_SECONDS = 5.0
_INHERITED = ("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SSL_CERT_FILE")


@dataclass(frozen=True)
class FunctionConfig:
    """What a worker needs to know of its function."""

    name: str
    arn: str
    handler: str
    role: str
    timeout: float
    memory: int
    runtime: str
    code: Path
    opt: Path
    log_group: str
    environment: dict[str, str] = field(default_factory=dict)


WriteLog = Callable[[str, str, list[str]], None]


class Worker:
    """One runtime process; handles one invocation at a time."""

    def __init__(
        self, config: FunctionConfig, environment: dict[str, str], write_log: WriteLog
    ) -> None:
        self.config = config
        self.write_log = write_log
        self.stream = f"{time.strftime('%Y/%m/%d', time.gmtime())}/[$LATEST]{uuid.uuid4().hex}"
        self.api = RuntimeApi()
        self.started = time.monotonic()
        self._killed = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", config.handler],
            cwd=config.code,
            env={
                **environment,
                "AWS_LAMBDA_RUNTIME_API": self.api.address,
                "AWS_LAMBDA_LOG_STREAM_NAME": self.stream,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=self._read_output, daemon=True, name=f"log-{config.name}").start()
        threading.Thread(target=self._watch, daemon=True, name=f"watch-{config.name}").start()

    @property
    def alive(self) -> bool:
        return not self._killed and self.process.poll() is None and self.api.init_error is None

    def wait_ready(self) -> bytes | None:
        """Wait for the end of the init phase; the error if it failed."""
        if not self.api.ready.wait(max(0.0, self.started + INIT_SECONDS - time.monotonic())):
            return _error(
                "Sandbox.Timedout", f"the init phase took longer than {INIT_SECONDS:.0f} s"
            )
        return self.api.init_error

    def invoke(self, invocation: Invocation) -> None:
        """Run one invocation; afterwards the worker is free again or dead."""
        self.api.send(invocation)
        if not self.alive:
            self._fail_current()
        if not invocation.done.wait(max(0.0, invocation.deadline - time.time())):
            self.api.forget()
            invocation.fail(
                "Sandbox.Timedout",
                f"RequestId: {invocation.request_id} Error: "
                f"Task timed out after {self.config.timeout:.2f} seconds",
            )
            self.kill()

    def kill(self) -> None:
        self._killed = True  # from now on, though the process may take a moment to go
        if self.process.poll() is None:  # a reaped pid may already belong to somebody else
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.api.close()

    def ended(self, seconds: float) -> None:
        """Wait until the killed process is gone.

        The kernel of a busy machine takes its time, and `down` counts the processes that are left.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def _watch(self) -> None:
        """Wait for the end of the process, not of its output: a child may hold the pipe open."""
        code = self.process.wait()
        if not self.api.ready.is_set():
            self.api.init_failed(
                _error("Runtime.ExitError", f"Runtime exited during init with exit status {code}")
            )
        self._fail_current()
        self.api.close()

    def _fail_current(self) -> None:
        current, code = self.api.current, self.process.poll()
        if current:
            how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
            current.fail(
                "Runtime.ExitError",
                f"RequestId: {current.request_id} Error: Runtime exited with error: {how}",
            )

    def _read_output(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.write_log(
                self.config.log_group, self.stream, [line.decode("utf-8", "replace").rstrip("\n")]
            )


class Pool:
    """The workers of one function.

    Idle ones are reused and missing ones started, up to a limit. Then callers wait.
    """

    def __init__(
        self,
        config: FunctionConfig,
        environment: Callable[[], dict[str, str]],
        write_log: WriteLog,
        *,
        most: int,
        keep: int,
    ) -> None:
        self.config = config
        self._environment = environment
        self._write_log = write_log
        self._most = most
        self._keep = keep
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._starting = 0
        self._waiting = 0
        self._failed: list[bytes] = []
        self._closed = False
        self._changed = threading.Condition()
        self.invocations = 0
        self.errors = 0

    def warm(self, count: int) -> None:
        """Start workers until `count` are there, without waiting for them."""
        with self._changed:
            for _ in range(count - len(self._all)):
                self._start()

    def invoke(self, payload: bytes) -> Invocation:
        """Run one invocation and wait for its end; its errors are in the result, as on Lambda."""
        worker, failure = self._take()
        invocation = Invocation(payload, time.time() + self.config.timeout, self.config.arn)
        self.invocations += 1
        if worker is None:
            invocation.finish(failure, failed=True)
        else:
            self._run(worker, invocation)
        if invocation.failed:
            self.errors += 1
        return invocation

    def _run(self, worker: Worker, invocation: Invocation) -> None:
        began = time.monotonic()
        worker.invoke(invocation)
        milliseconds = (time.monotonic() - began) * 1000
        status = "\tStatus: error" if invocation.failed else ""
        line = (
            f"REPORT RequestId: {invocation.request_id}\tDuration: {milliseconds:.2f} ms\t"
            f"Memory Size: {self.config.memory} MB{status}"
        )
        self._write_log(self.config.log_group, worker.stream, [line])
        self._give_back(worker)

    def _take(self) -> tuple[Worker | None, bytes]:
        """An idle worker, or one that just finished its init, or the error of a failed init."""
        with self._changed:
            self._waiting += 1
            impatient_at = time.monotonic() + PATIENCE_SECONDS
            try:
                while True:
                    if self._closed:
                        return None, _error("Runtime.ExitError", "the local cloud is shutting down")
                    while self._idle:
                        worker = self._idle.pop()
                        if worker.alive:
                            return worker, b""
                        self._all.discard(worker)
                    if self._failed:
                        return None, self._failed.pop()
                    self._all = {w for w in self._all if w.process.poll() is None}
                    patience = impatient_at - time.monotonic()
                    if self._wants_another(patience):
                        self._start()
                    self._changed.wait(max(patience, 0.01) if patience > 0 else 1.0)
            finally:
                self._waiting -= 1

    def _wants_another(self, patience: float) -> bool:
        if max(len(self._all), self._starting) >= self._most or self._starting >= self._waiting:
            return False
        return patience <= 0 or not (self._all or self._starting)

    def _start(self) -> None:
        self._starting += 1
        threading.Thread(
            target=self._start_one, daemon=True, name=f"start-{self.config.name}"
        ).start()

    def _start_one(self) -> None:
        environment = self._environment()
        with self._changed:  # under the lock, so that close() knows of every process there is
            if self._closed:
                self._starting -= 1
                return
            worker = Worker(self.config, environment, self._write_log)
            self._all.add(worker)
        failure = worker.wait_ready()
        if failure is not None:
            worker.kill()
            self._write_log(
                self.config.log_group,
                worker.stream,
                [f"INIT failed: {failure.decode(errors='replace')}"],
            )
        with self._changed:
            self._starting -= 1
            if self._closed or failure is not None:
                self._all.discard(worker)
                worker.kill()
            else:
                self._idle.append(worker)
            if failure is not None and self._waiting:
                self._failed.append(failure)
            self._changed.notify_all()

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            if not worker.alive or self._closed or len(self._idle) >= self._keep:
                self._all.discard(worker)
                worker.kill()
            else:
                self._idle.append(worker)
            self._changed.notify_all()

    def retire(self) -> None:
        """No worker is kept from now on; those that are at work end their invocation first."""
        with self._changed:
            self._keep, idle, self._idle = 0, self._idle, []
            self._all -= set(idle)
        for worker in idle:
            worker.kill()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            workers, self._all, self._idle = self._all, set(), []
            self._changed.notify_all()
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.ended(END_SECONDS)

    def report(self) -> dict[str, object]:
        with self._changed:
            pids = sorted(w.process.pid for w in self._all if w.process.poll() is None)
        return {"workers": pids, "invocations": self.invocations, "errors": self.errors}


def worker_environment(
    config: FunctionConfig,
    *,
    tag: str,
    state_dir: Path,
    endpoint: str,
    region: str,
    credentials: dict[str, str],
) -> dict[str, str]:
    """A worker's whole environment as Lambda would set it, and the tag by which `down` finds it."""
    return {
        **{name: os.environ[name] for name in _INHERITED if name in os.environ},
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "LAMBDA_TASK_ROOT": str(config.code),
        "_HANDLER": config.handler,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{config.runtime}",
        "AWS_LAMBDA_FUNCTION_NAME": config.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(config.memory),
        "AWS_LAMBDA_LOG_GROUP_NAME": config.log_group,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SDK_UA_APP_ID": "",
        "PYTHONPATH": str(config.opt / "python"),
        "PYTHONUNBUFFERED": "1",
        **config.environment,
        **credentials,
        tag: str(state_dir),
    }


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()
