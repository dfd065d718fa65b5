"""How git is let in: its settings, and a secret that meets no disk."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainyard_agent.host.git_wanted import Wanted
from trainyard_contracts.git_code import host_of

# A server that sends less than this for a minute has stopped.
_SLOWEST_BYTES, _SLOWEST_SECONDS = 1000, 60
TRANSPORTS = ("https", "ssh", "file")

_ASKPASS = """\
#!/bin/sh
case "$1" in
*"'$TRAINYARD_GIT_SCHEME://$TRAINYARD_GIT_HOST': " | \
*"'$TRAINYARD_GIT_SCHEME://"*"@$TRAINYARD_GIT_HOST': ") ;;
*) exit 1 ;;
esac
case "$1" in
Username*) printf '%s\\n' x-access-token ;;
Password*) printf '%s\\n' "$TRAINYARD_GIT_SECRET" ;;
esac
"""


def settings(transports: Sequence[str]) -> str:
    allowed = "".join(f'[protocol "{name}"]\n\tallow = always\n' for name in transports)
    return (
        "[protocol]\n\tallow = never\n" + allowed + "[core]\n\thooksPath = /dev/null\n"
        "\tfsmonitor = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
        f"[http]\n\tlowSpeedLimit = {_SLOWEST_BYTES}\n\tlowSpeedTime = {_SLOWEST_SECONDS}\n"
        # A repository on the shared filesystem belongs to one of the cluster's users. What git
        # reads of it to send it, it reads as of somebody it does not trust.
        "[safe]\n\tdirectory = *\n"
    )


def with_token(scratch: Path, wanted: Wanted) -> dict[str, str]:
    """The program asks which server wants to know: a redirect elsewhere gets nothing."""
    askpass = scratch / "askpass"
    askpass.write_text(_ASKPASS)
    askpass.chmod(0o700)
    return {
        "GIT_ASKPASS": str(askpass),
        "TRAINYARD_GIT_SCHEME": wanted.url.partition(":")[0],
        "TRAINYARD_GIT_HOST": host_of(wanted.url),
        "TRAINYARD_GIT_SECRET": wanted.secret,
    }


def with_key(scratch: Path, wanted: Wanted, key: str) -> dict[str, str]:
    known = scratch / "known_hosts"
    known.write_text("".join(f"{line}\n" for line in wanted.known_hosts))
    options = {
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(known),
        "ConnectTimeout": "20",
        "ServerAliveInterval": "15",
    }
    words = ["ssh", "-F", "/dev/null", "-i", key]
    words += [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    # git gives it to a shell; none of it is a user's.
    return {"GIT_SSH_COMMAND": shlex.join(words), "GIT_SSH_VARIANT": "ssh"}


@contextlib.contextmanager
def nameless(key: str) -> Iterator[str]:
    """A path by which processes of this user read the key, while this process has it open."""
    descriptor = os.memfd_create("key")
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, 0o600)
        stream.write(key.rstrip("\n").encode() + b"\n")  # ssh takes no key without a line's end
        stream.flush()
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
