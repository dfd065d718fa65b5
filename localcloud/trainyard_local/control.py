"""Starts, shows and ends a local cloud from outside, for `trainyard local up | down | status`."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainyard_local.local_cloud import NAMING
from trainyard_local.machines import host as machine_host
from trainyard_local.machines import network as machine_network
from trainyard_local.machines import packages as machine_packages
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.processes import of_cloud
from trainyard_local.slurm import cluster as slurm

TAG = NAMING.tag
LOCAL_FILE = "local.json"
#: A file for each user that was made, with a key.
PEOPLE = "people"
LOG_FILE = "server.log"
#: What a cloud leaves in its state directory while it runs; the log stays for whoever asks why.
RUNNING_PARTS = (LOCAL_FILE, PEOPLE, "functions", "clusters", "training-jobs", "fsx", "run")
_INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
)

#: What the server itself can be told (hyperpod.state.Settings, machines.image).
_SETTINGS = "TRAINYARD_LOCAL_"

Progress = Callable[[str], None]


class ControlError(Exception):
    """The local cloud could not be started or ended; the message says why, `remedy` what to do."""

    def __init__(
        self, message: str, remedy: str = "Look at server.log in the state directory."
    ) -> None:
        super().__init__(f"{message}. {remedy}")
        self.message, self.remedy = message, remedy


class InTheWay(ControlError):
    """Something that is there already."""


class Unusable(ControlError):
    """What was given cannot be used: the template, or the state directory."""


#: By the kind that the server gives its error when it could not start.
_START_ERRORS: dict[str, tuple[type[ControlError], str]] = {
    "port": (
        InTheWay,
        "Stop what listens there, or start this one with another --port (0 takes a free one).",
    ),
    "template": (Unusable, "Correct the template."),
    "machines": (Unusable, "Or use --nodes processes."),
    "disk": (Unusable, "Make room there, or give another directory with --state-dir."),
    "defect": (ControlError, "Look at server.log in the state directory."),
}


def up(
    state_dir: Path,
    port: int = 4780,
    template: Path | None = None,
    parameters: Mapping[str, str] | None = None,
    on_progress: Progress = lambda _: None,
    *,
    enforce_iam: bool = True,
    nodes: str = "processes",
) -> dict[str, Any]:
    """Start a local cloud with the template deployed; returns what local.json holds.

    Port 0 takes a free one. What a killed cloud left behind in the same state directory is removed
    first. Raises InTheWay when one runs already or the port is taken, Unusable for a template or
    directory that cannot be used, else ControlError.
    """
    if nodes == "machines" and (missing := machine_host.missing()):
        raise Unusable(f"nodes cannot be machines here: {missing[0]}", f"{missing[1]}.")
    state_dir, template = state_dir.resolve(), (template or Path("template.yaml")).resolve()
    with _exclusive(state_dir):
        _make_way(state_dir, on_progress)
        if nodes == "machines":
            try:
                machine_packages.ready(template, on_progress)
            except machine_host.Impossible as error:
                raise Unusable(error.message, error.remedy) from None
        options = ["--nodes", nodes] + ([] if enforce_iam else ["--no-iam"])
        return _start(
            state_dir,
            port,
            template,
            parameters=dict(parameters or {}),
            on_progress=on_progress,
            options=options,
        )


def _make_way(state_dir: Path, on_progress: Progress) -> None:
    """Remove what a killed cloud left behind. Raises InTheWay when a cloud runs there."""
    running = _server(state_dir)
    if running:
        raise InTheWay(
            f"a local cloud is running already in {state_dir} (process {running['pid']})",
            "Use it as it is (`trainyard local status`), "
            "or end it first with `trainyard local down`.",
        )
    if node_processes.matching(of_cloud(state_dir)) or (state_dir / LOCAL_FILE).exists():
        on_progress("removing what a killed cloud left behind")
    _clean(state_dir)


def update(state_dir: Path, template: Path, on_progress: Progress = lambda _: None) -> None:
    """Run the code of this template from now on; records, clusters and what runs stay.

    Nodes that are there keep what they have until they are replaced, as on AWS. Raises Unusable for
    a template that cannot be used or that changes more than an update can, else ControlError.
    """
    state_dir, template = state_dir.resolve(), template.resolve()
    with _exclusive(state_dir):
        server = _server(state_dir)
        if server is None:
            raise ControlError(
                f"no local cloud is up in {state_dir}", "Start one with `trainyard local up`."
            )
        if server["nodes"] == "machines":
            machine_packages.ready(template, on_progress)
        answer = _call(server, "POST", "update", 120.0, {"template": str(template)})
    if answer is None:
        raise ControlError("the local cloud did not answer", f"Its log is {state_dir / LOG_FILE}.")
    if "code" in answer:
        raise Unusable(str(answer["message"]), "Nothing was changed.")


def down(state_dir: Path) -> dict[str, Any]:
    """End everything of the cloud in this state directory: nodes, workers, server. Idempotent.

    It works after the server was killed, too. Returns {"stopped": was a server running,
    "graceful": it ended by itself, "killed": how many processes did not}. Raises ControlError when
    a process cannot be ended.
    """
    state_dir = state_dir.resolve()
    # A person may have removed the directory of a running cloud. The cloud's processes still carry
    # the directory's name.
    if not state_dir.is_dir() and not node_processes.matching(of_cloud(state_dir)):
        return {"stopped": False, "graceful": False, "killed": 0}
    with _exclusive(state_dir):
        server = _server(state_dir)
        graceful = _shut_down(state_dir, server) if server else False
        killed = _clean(state_dir)
    return {"stopped": server is not None, "graceful": graceful, "killed": killed}


def status(state_dir: Path) -> dict[str, Any]:
    """What is known of the cloud in this state directory.

    {"running", "local": local.json or None, "processes", "cloud": the server's own status or None,
    "killed": it left its file behind}
    """
    state_dir = state_dir.resolve()
    server = _server(state_dir)
    found = node_processes.matching(of_cloud(state_dir))
    cloud = _call(server, "GET", "status", 10.0) if server else None
    shown = {k: v for k, v in server.items() if k != "secretAccessKey"} if server else None
    return {
        "running": cloud is not None,
        "local": shown,
        "processes": [{"pid": p.pid, "command": p.command} for p in found],
        "cloud": cloud,
        "killed": server is None and (state_dir / LOCAL_FILE).exists(),
    }


def _start(
    state_dir: Path,
    port: int,
    template: Path,
    *,
    parameters: dict[str, str],
    on_progress: Progress,
    options: Sequence[str],
) -> dict[str, Any]:
    reading, writing = os.pipe()
    command = [
        *(sys.executable, "-m", "trainyard_local.server"),
        *("--state-dir", str(state_dir)),
        *("--port", str(port)),
        *("--template", str(template)),
        *("--parameters", json.dumps(parameters)),
        *("--notify-fd", str(writing)),
        *options,
    ]
    with open(state_dir / LOG_FILE, "ab") as log:
        process = subprocess.Popen(
            command,
            env=_environment(state_dir),
            cwd=state_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[writing],
            start_new_session=True,
        )
    os.close(writing)
    try:
        return _await_ready(reading, process, state_dir, on_progress)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        _clean(state_dir)
        raise


def _environment(state_dir: Path) -> dict[str, str]:
    """What the server gets of our environment, and the tag by which `down` finds it."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or name.startswith(_SETTINGS)
    }
    return {**inherited, TAG: str(state_dir)}


def _await_ready(
    reading: int, process: subprocess.Popen[bytes], state_dir: Path, on_progress: Progress
) -> dict[str, Any]:
    with os.fdopen(reading) as messages:
        for line in messages:
            message = json.loads(line)
            if "progress" in message:
                on_progress(message["progress"])
            elif "error" in message:
                error, remedy = _START_ERRORS[message["kind"]]
                raise error(message["error"], remedy)
            else:
                ready: dict[str, Any] = message["ready"]
                return ready
    raise ControlError(
        f"the local cloud ended while it started (exit status {process.wait()})",
        f"Its log is {state_dir / LOG_FILE}.",
    )


def _server(state_dir: Path) -> dict[str, Any] | None:
    """local.json of a server that is alive and ours.

    The pid alone says nothing: another process may have it now.
    """
    try:
        local: dict[str, Any] = json.loads((state_dir / LOCAL_FILE).read_text())
    except (OSError, ValueError):
        return None
    ours = {
        p.pid
        for p in node_processes.matching(of_cloud(state_dir))
        if "trainyard_local.server" in p.command
    }
    return local if local["pid"] in ours else None


def _shut_down(state_dir: Path, server: Mapping[str, Any]) -> bool:
    """Ask the server to end; True if it did in time."""
    if _call(server, "POST", "shutdown", 5.0) is None:
        return False
    deadline = time.monotonic() + 8.0
    while time.monotonic() < deadline:
        if not node_processes.alive(server["pid"]):
            return True
        time.sleep(0.05)
    return False


def _call(
    server: Mapping[str, Any],
    method: str,
    path: str,
    seconds: float,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    connection = http.client.HTTPConnection(
        server["endpoint"].removeprefix("http://"), timeout=seconds
    )
    try:
        connection.request(
            method,
            NAMING.admin_prefix + path,
            body=None if body is None else json.dumps(body),
            headers={NAMING.admin_header: server.get("adminToken", "")},
        )
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return answer


def _clean(state_dir: Path) -> int:
    """Kill every process of this cloud, then remove what only a running cloud needs.

    Returns how many had to be killed.
    """
    try:
        killed = node_processes.kill(of_cloud(state_dir), spare=_ancestors())
    except RuntimeError as error:
        raise ControlError(
            str(error), "Look at them with `trainyard local status` and try again."
        ) from None
    machine_network.remove(state_dir)
    slurm.remove_short_link(state_dir)
    for name in RUNNING_PARTS:
        part = state_dir / name
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)
    return killed


def _ancestors() -> set[int]:
    """Our parents: one may carry the tag in its environment, and must not be killed for it."""
    found, pid = set(), os.getpid()
    while pid > 1:
        found.add(pid)
        with open(f"/proc/{pid}/stat") as stat:
            pid = int(stat.read().rpartition(")")[2].split()[1])
    return found


@contextlib.contextmanager
def _exclusive(state_dir: Path) -> Iterator[None]:
    """One `up` or `down` at a time in a state directory, which is made if need be."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        # It is closed below: errors in between are not the directory's fault.
        lock = open(state_dir / ".lock", "w")  # noqa: SIM115
    except OSError as error:
        raise Unusable(
            f"{state_dir} cannot be the state directory: {error.strerror}",
            "Give another with --state-dir.",
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another `trainyard local up` or `down` is at work in {state_dir}"
            raise InTheWay(
                message, "Wait for it, then look with `trainyard local status`."
            ) from None
        yield
