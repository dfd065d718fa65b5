"""`trainyard-agent`: a thin, fast client of the daemon's socket; it imports nothing heavy because the control plane waits for it."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any

from trainyard_agent.local_socket import COMMAND_SOCKET, JOB_END_SOCKET, address

USAGE = {
    "submit": ("--run", "--attempt", "--bundle", "--sha256"),
    "exclude": ("--run", "--attempt", "--nodes"),
    "cancel": ("--run",),
    "status": ("--run",),
    "export": ("--run", "--export-id", "--destination", "--checkpoints"),
    "logs": ("--run", "--attempt", "--lines"),
    "nodes": (),
    "daemon": ("--config",),
    "notify-job-end": (),
}
DEFAULTS = {"--lines": "100", "--checkpoints": "last", "--sha256": ""}
#: How long a command waits for a daemon that is just being restarted.
PATIENCE_SECONDS = 5.0
#: A submit takes well below a second; Slurm's own timeouts bound it, so this only guards against a wedged daemon.
ANSWER_SECONDS = 120.0


class Usage(Exception):
    """The command line is wrong; the text says what would be right."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; print its JSON; 0 if it worked, 1 if not."""
    try:
        command, options = parse(sys.argv[1:] if argv is None else argv)
        if command == "daemon":
            from trainyard_agent.daemon import run_daemon

            return run_daemon(options["config"])
        if command == "notify-job-end":
            return notify_job_end()
        answer = ask({"command": command, **options})
    except Usage as error:
        answer = {"error": "invalid-request", "message": str(error)}
    except TimeoutError:
        answer = {
            "error": "agent-silent",
            "message": f"the agent did not answer within {ANSWER_SECONDS:.0f} s; the same command again is safe",
        }
    except OSError as error:
        answer = {
            "error": "agent-not-running",
            "message": f"no agent answers at {state_dir()}/{COMMAND_SOCKET}: {error}; start the daemon (systemctl start trainyard-agent)",
        }
    print(json.dumps(answer))
    return 1 if "error" in answer else 0


def parse(argv: list[str]) -> tuple[str, dict[str, str]]:
    """Command and options. Raises Usage."""
    if not argv or argv[0] not in USAGE:
        raise Usage(f"the first argument must be one of {', '.join(USAGE)}; got {argv[0] if argv else 'nothing'!r}")
    command, rest = argv[0], argv[1:]
    allowed = USAGE[command]
    options = {name: value for name, value in DEFAULTS.items() if name in allowed}
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name not in allowed:
            raise Usage(f"{name} is not an option of '{command}'; it takes {' '.join(allowed) or 'none'}")
        if not _:
            if not rest:
                raise Usage(f"{name} needs a value")
            value = rest.pop(0)
        options[name] = value
    missing = [name for name in allowed if name not in options]
    if missing:
        raise Usage(f"'{command}' needs {' '.join(missing)}")
    return command, {name[2:].replace("-", "_"): value for name, value in options.items()}


def state_dir() -> str:
    """Where the daemon of this node keeps its sockets."""
    return os.path.join(os.environ.get("TRAINYARD_ROOT") or "/", "var/lib/trainyard")


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """One request to the daemon, one answer."""
    with connect(time.monotonic() + PATIENCE_SECONDS) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as stream:
            line = stream.readline()
    if not line:
        return {"error": "agent-restarted", "message": "the agent ended before it answered; the same command again is safe"}
    answer: dict[str, Any] = json.loads(line)
    return answer


def connect(deadline: float) -> socket.socket:
    """A connection to the daemon; waits until `deadline` for one that is being started. Raises OSError."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address(state_dir(), COMMAND_SOCKET) as path:
                connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


def notify_job_end() -> int:
    """Tell the daemon that some job ended. Always 0: the daemon polls as well, and an epilog must never fail a job."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            with address(state_dir(), JOB_END_SOCKET) as path:
                sender.sendto(os.environ.get("SLURM_JOB_ID", "").encode()[:32], path)
        except OSError:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
