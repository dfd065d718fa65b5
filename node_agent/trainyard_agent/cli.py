"""`trainyard-agent`: a thin client of the daemon's socket.

It reads no files and imports little: it must start fast, because the control plane waits for it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from trainyard_agent.host.local_socket import COMMAND_SOCKET, JOB_END_SOCKET, address

#: How long a command waits for a daemon that is just being restarted.
PATIENCE_SECONDS = 5.0
#: How long a command waits for the daemon's answer. A submit takes well below a second, and Slurm's
#: own timeouts bound it, so this only guards against a wedged daemon.
ANSWER_SECONDS = 120.0

#: trainyard_contracts.packed.OPTION, which is not imported for most commands.
PACKED = "--packed"
DAEMON = "trainyard-agent daemon --config FILE"
READ_SECRETS = "trainyard-agent read-secrets < {region, secrets}"
PREPARE_IMAGE = "trainyard-agent prepare-image ATTEMPT_DIR"


def main(argv: list[str] | None = None) -> int:
    """Run one command; print its JSON; 0 if it worked, 1 if not."""
    words = sys.argv[1:] if argv is None else argv
    if {"-h", "--help"} & set(words):
        print(usage())
        return 0
    if words[:1] == ["daemon"]:
        return _daemon(words[1:])
    if words == ["read-secrets"]:
        from trainyard_agent.host.job_secrets import main as read_secrets

        return read_secrets()
    if words[:1] == ["prepare-image"] and len(words) == 2:
        from trainyard_agent.jobs.image_import import main as prepare_image

        return prepare_image(words[1])
    if words == ["notify-job-end"]:
        return notify_job_end()
    packed = words[:1] == [PACKED]
    try:
        answer = ask(words[1:] if packed else words)
    except TimeoutError:
        answer = {
            "error": "agent-silent",
            "message": f"the agent did not answer within {ANSWER_SECONDS:.0f} s; "
            "the same command again is safe",
        }
    except OSError as error:
        answer = {
            "error": "agent-not-running",
            "message": f"no agent answers at {state_dir()}/{COMMAND_SOCKET}: {error}; "
            "start the daemon (systemctl start trainyard-agent)",
        }
    print(_packed(json.dumps(answer)) if packed else json.dumps(answer))
    return 1 if "error" in answer else 0


def _packed(text: str) -> str:
    from trainyard_contracts.packed import pack

    return pack(text)


def _daemon(words: Sequence[str]) -> int:
    if len(words) != 2 or words[0] != "--config":
        print(json.dumps({"error": "invalid-request", "message": f"it is: {DAEMON}"}))
        return 1
    from trainyard_agent.daemon import run_daemon

    return run_daemon(words[1])


def usage() -> str:
    """For people; a command does not wait for this import."""
    from trainyard_contracts.commands import COMMANDS

    commands = [command.usage() for command in COMMANDS.values()]
    lines = [*commands, DAEMON, "trainyard-agent notify-job-end", READ_SECRETS, PREPARE_IMAGE]
    return "\n".join(["usage:", *(f"  {line}" for line in lines)])


def state_dir() -> str:
    """Where the daemon of this node keeps its sockets."""
    return os.path.join(os.environ.get("TRAINYARD_ROOT") or "/", "var/lib/trainyard")


def ask(words: Sequence[str]) -> dict[str, Any]:
    """A command's words to the daemon, and its answer.

    The daemon reads the words (trainyard_contracts.commands).
    """
    with connect(time.monotonic() + PATIENCE_SECONDS) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.sendall(json.dumps({"words": list(words)}).encode() + b"\n")
        with connection.makefile("rb") as stream:
            line = stream.readline()
    if not line:
        return {
            "error": "agent-restarted",
            "message": "the agent ended before it answered; the same command again is safe",
        }
    answer: dict[str, Any] = json.loads(line)
    return answer


def connect(deadline: float) -> socket.socket:
    """A connection to the daemon; waits until `deadline` for one that is being started.

    Raises OSError.
    """
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
    """Send the daemon the hint that some job ended.

    Returns always 0: the daemon polls as well, and an epilog must never fail a job.
    """
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
