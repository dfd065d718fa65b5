"""Runs git for a repository of a user's: nothing of it is executed or checked out, and its secret
meets no disk. A token is in the environment of git alone, which hands it to the one server that it
is for; a private key is in a file without a name, which ends with this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

MOST_SECONDS = 3600.0
TRANSPORTS = ("https", "ssh", "file")
_PASSED = re.compile(r"PATH|SSL_CERT_(FILE|DIR)|(?i:(https?|all|no)_proxy)")
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
#: Words of git, curl and ssh for a server that does not answer now.
_NOT_NOW = re.compile(
    r"Could not resolve host|name resolution|timed out|Failed to connect|Couldn't connect|"
    r"Connection (refused|reset|closed)|unreachable|No route to host|early EOF|hung up|"
    r"Operation too slow|SSL_(read|ERROR_SYSCALL)|returned error: (429|5\d\d)",
    re.IGNORECASE,
)


class GitFailed(Exception):
    """The message says what would help. `passing`: the server does not answer now."""

    def __init__(self, words: str, *, passing: bool = False) -> None:
        super().__init__(words)
        self.passing = passing


@dataclass(frozen=True)
class Wanted:
    """`secret` is a token or a private key; '' without one."""

    url: str
    ref: str
    secret: str = field(default="", repr=False)
    known_hosts: Sequence[str] = ()
    ca_certificate: str = ""

    @property
    def is_ssh(self) -> bool:
        return self.url.startswith("ssh://") or not self.url.startswith(("http", "/"))

    @property
    def host(self) -> str:
        """With its port, as git names it when it asks for a password."""
        where = self.url.split("/")[2] if "://" in self.url else self.url.partition(":")[0]
        return where.rpartition("@")[2]


@dataclass(frozen=True)
class Entry:
    """One thing in a commit's tree, by its path."""

    path: str
    mode: str
    object: str
    size: int


class Git:
    """A bare repository that holds one commit; use it in a `with` of `opened`."""

    def __init__(self, repository: Path, environment: Mapping[str, str], wanted: Wanted) -> None:
        self._repository, self._environment, self._wanted = repository, environment, wanted

    def fetch(self) -> str:
        """Bring the commit that the ref means now; its id. Raises GitFailed."""
        self._run("init", "--quiet", "--bare", "--template=", "--", str(self._repository))
        self._run("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--",
                  self._wanted.url, self._wanted.ref)  # fmt: skip
        return self._run("rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()

    def entries(self, commit: str, path: str | None) -> list[Entry]:
        """All files, links and submodules of the commit, or of a directory of it."""
        try:
            tree = f"{commit}:{path}" if path else f"{commit}^{{tree}}"
            listed = self._run("ls-tree", "-r", "-z", "--long", "--full-tree", tree)
        except GitFailed:
            words = f"'{path}' is no directory of commit {commit[:12]}; correct job.git.path"
            raise GitFailed(words) from None
        found = []
        for line in listed.split(b"\0")[:-1]:
            about, _, name = line.partition(b"\t")
            mode, _, oid, size = about.decode().split()
            path_ = os.fsdecode(name)
            found.append(Entry(path_, mode, oid, 0 if size == "-" else int(size)))
        return found

    @contextlib.contextmanager
    def blobs(self) -> Iterator[Blobs]:
        process = self._start("cat-file", "--batch", stdin=subprocess.PIPE)
        try:
            yield Blobs(process)
        finally:
            _end(process)

    def _start(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        where = ["-C", str(self._repository)] if self._repository.exists() else []
        try:
            return subprocess.Popen(
                ["git", *where, *words],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if stdin == subprocess.DEVNULL else subprocess.DEVNULL,
                env=dict(self._environment),
                start_new_session=True,
            )
        except FileNotFoundError:
            raise GitFailed(
                "there is no git in the container's image; name an image that has it, or upload "
                "the code with job.workdir"
            ) from None

    def _run(self, *words: str) -> bytes:
        process = self._start(*words)
        try:
            told, complaint = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            raise GitFailed(f"it took longer than {MOST_SECONDS / 3600:.0f} h") from None
        finally:
            _end(process)
        if process.returncode != 0:
            raise _why(self._wanted, complaint.decode(errors="replace"))
        return told


class Blobs:
    """`git cat-file --batch`: an id in, a header and the content out."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._into: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout

    def open(self, entry: Entry) -> IO[bytes]:
        """The pipe, from which just the entry's size is to be read, and then `close` called."""
        try:
            self._into.write(f"{entry.object}\n".encode())
            self._into.flush()
        except BrokenPipeError:
            raise GitFailed(f"git cannot read '{entry.path}'") from None
        header = self._out.readline().split()
        if len(header) != 3 or int(header[2]) != entry.size:
            raise GitFailed(f"git cannot read '{entry.path}'")
        return self._out

    def close(self) -> None:
        self._out.read(1)  # the line's end


@contextlib.contextmanager
def opened(
    directory: Path, wanted: Wanted, transports: Sequence[str] = TRANSPORTS
) -> Iterator[Git]:
    """A repository below `directory`, and what git needs beside it for as long as this lasts."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainyard-git-")))
        (scratch / "config").write_text(_settings(transports))
        environment = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
        environment |= {
            "HOME": str(scratch),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(scratch / "config"),
            "GIT_TERMINAL_PROMPT": "0",
        }
        if wanted.is_ssh:
            environment |= _with_key(scratch, wanted, stack.enter_context(_nameless(wanted.secret)))
        elif wanted.secret:
            environment |= _with_token(scratch, wanted)
        if wanted.ca_certificate:
            (scratch / "ca.pem").write_text(wanted.ca_certificate)
            environment["GIT_SSL_CAINFO"] = str(scratch / "ca.pem")
        yield Git(directory / "repository", environment, wanted)


def _settings(transports: Sequence[str]) -> str:
    allowed = "".join(f'[protocol "{name}"]\n\tallow = always\n' for name in transports)
    return (
        "[protocol]\n\tallow = never\n" + allowed + "[core]\n\thooksPath = /dev/null\n"
        "\tfsmonitor = false\n[gc]\n\tauto = 0\n[http]\n\tlowSpeedLimit = 1000\n"
        "\tlowSpeedTime = 60\n[safe]\n\tdirectory = *\n"
    )


def _with_token(scratch: Path, wanted: Wanted) -> dict[str, str]:
    """The program asks which server wants to know: a redirect elsewhere gets nothing."""
    askpass = scratch / "askpass"
    askpass.write_text(_ASKPASS)
    askpass.chmod(0o700)
    return {
        "GIT_ASKPASS": str(askpass),
        "TRAINYARD_GIT_SCHEME": wanted.url.partition(":")[0],
        "TRAINYARD_GIT_HOST": wanted.host,
        "TRAINYARD_GIT_SECRET": wanted.secret,
    }


def _with_key(scratch: Path, wanted: Wanted, key: str) -> dict[str, str]:
    known = scratch / "known_hosts"
    known.write_text("".join(f"{line}\n" for line in wanted.known_hosts))
    options = ["IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=yes",
               f"UserKnownHostsFile={known}", "ConnectTimeout=20",
               "ServerAliveInterval=15"]  # fmt: skip
    words = ["ssh", "-F", "/dev/null", "-i", key]
    words += [part for option in options for part in ("-o", option)]
    # git gives it to a shell; none of it is a user's.
    return {"GIT_SSH_COMMAND": shlex.join(words), "GIT_SSH_VARIANT": "ssh"}


@contextlib.contextmanager
def _nameless(key: str) -> Iterator[str]:
    """A path by which processes of this user read the key, while this process has it open."""
    with os.fdopen(os.memfd_create("key"), "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(key.rstrip("\n").encode() + b"\n")  # ssh takes no key without a line's end
        stream.flush()
        yield f"/proc/{os.getpid()}/fd/{stream.fileno()}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """git has children of its own: curl's and ssh's."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


def _why(wanted: Wanted, complaint: str) -> GitFailed:
    text = complaint.replace(wanted.secret, "(secret)") if wanted.secret else complaint
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    told = next(iter(fatal or lines[-1:]), "it said nothing")
    said = "".join(sign for sign in told if sign.isprintable())[:300]
    return GitFailed(
        f"git cannot fetch '{wanted.ref}' of {wanted.url}: {said}; look at job.git: its url, ref, "
        "secret, knownHosts and caCertificate, and whether the nodes' network reaches the server",
        passing=bool(_NOT_NOW.search(complaint)),
    )
