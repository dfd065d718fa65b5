"""Runs git for a repository of a user's: nothing of it is executed, and its secret meets no disk.

No file is ever checked out: hooks, filters and attributes of the repository do nothing, and its
contents are read from the objects themselves. Submodules are not fetched. A token is in git's
environment, from which GIT_ASKPASS hands it to the one server it is for; a private key is in a file
that has no name in any directory and vanishes with this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trainyard_contracts.git_code import COMMIT, host_of, is_ssh

#: A fetch takes so long at most.
MOST_SECONDS = 3600.0
# A server that sends less than this for a minute has stopped.
_SLOWEST_BYTES, _SLOWEST_SECONDS = 1000, 60
_POLL_SECONDS = 0.2
TRANSPORTS = ("https", "ssh", "file")
#: What else of the agent's environment git may need to reach a server.
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


class GitRefused(Exception):
    """It cannot be fetched, and trying again would not help; the message says what would."""


class GitUnreachable(Exception):
    """The server does not answer now."""


class Stopped(Exception):
    """The agent ends, or the fetch takes too long."""


@dataclass(frozen=True)
class Wanted:
    """What is to be fetched. `secret` is a token or a private key; '' without one.

    With `ca_certificate` (PEM) a server of https must have a certificate that this one signed.
    """

    url: str
    ref: str
    secret: str = ""
    known_hosts: tuple[str, ...] = ()
    ca_certificate: str = ""


@dataclass(frozen=True)
class Entry:
    """One thing in a commit's tree, by its path."""

    path: str
    mode: str
    object: str
    size: int


class Git:
    """One bare repository that holds one commit; use it in a `with` of `opened`."""

    def __init__(
        self, repository: Path, scratch: Path, environment: Mapping[str, str], wanted: Wanted,
        stop: threading.Event,
    ) -> None:  # fmt: skip
        self._repository, self._scratch = repository, scratch
        self._environment, self._wanted, self._stop = environment, wanted, stop

    def fetch(self) -> str:
        """Bring the commit that `ref` means now; its id. Raises GitRefused, GitUnreachable."""
        self._run("init", "--quiet", "--bare", "--template=", "--", str(self._repository), at=False)
        where = [self._wanted.url, self._wanted.ref]
        self._run("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--",
                  *where)  # fmt: skip
        return self._run("rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()

    def tree(self, commit: str, path: str | None) -> str:
        """The id of a directory's tree. Raises GitRefused where there is none."""
        try:
            name = f"{commit}:{path}" if path else f"{commit}^{{tree}}"
            found = self._run("rev-parse", "--verify", "--quiet", name).decode().strip()
            if self._run("cat-file", "-t", found).strip() == b"tree":
                return found
        except (GitRefused, GitUnreachable):
            pass
        raise GitRefused(
            f"path '{path}' is no directory of commit {commit[:12]}; correct job.git.path"
        )

    def entries(self, tree: str) -> list[Entry]:
        """All files, links and submodules below a tree. Raises GitRefused."""
        listed = self._run("ls-tree", "-r", "-z", "--long", "--full-tree", tree)
        found = []
        for line in listed.split(b"\0")[:-1]:
            about, _, name = line.partition(b"\t")
            mode, _, oid, size = about.decode().split()
            try:
                path = name.decode()
            except UnicodeDecodeError:
                raise GitRefused(
                    f"the name {name!r} in the repository is not UTF-8; rename the file"
                ) from None
            found.append(Entry(path, mode, oid, 0 if size == "-" else int(size)))
        return found

    @contextlib.contextmanager
    def blobs(self) -> Iterator[Blobs]:
        """Reads the contents of files, one after the other."""
        process = self._start("cat-file", "--batch", stdin=subprocess.PIPE)
        try:
            yield Blobs(process)
        finally:
            _end(process)

    # -- processes --------------------------------------------------------------------------------
    def _start(self, *words: str, at: bool = True, stdin: int = subprocess.DEVNULL) -> Process:
        where = ["-C", str(self._repository)] if at else []
        try:
            return subprocess.Popen(
                ["git", *where, *words],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if stdin == subprocess.DEVNULL else subprocess.DEVNULL,
                env=dict(self._environment),
                cwd=self._scratch,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise GitRefused(
                "there is no git on the controller; install it in the image of its nodes, or "
                "upload the code with job.workdir"
            ) from None

    def _run(self, *words: str, at: bool = True) -> bytes:
        process, until = self._start(*words, at=at), time.monotonic() + MOST_SECONDS
        try:
            while True:
                try:
                    told, complaint = process.communicate(timeout=_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if self._stop.is_set():
                        raise Stopped from None
                    if time.monotonic() > until:
                        raise GitRefused(
                            f"it took longer than {MOST_SECONDS / 3600:.0f} h; put large data on "
                            "the shared filesystem or into S3"
                        ) from None
        finally:
            _end(process)
        if process.returncode != 0:
            raise why(self._wanted, complaint.decode(errors="replace"))
        return told


class Blobs:
    """`git cat-file --batch`: an id in, a header and the content out."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def read(self, entry: Entry) -> Iterator[bytes]:
        """The content of a file in blocks, all of which must be taken. Raises GitRefused."""
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        try:
            into.write(f"{entry.object}\n".encode())
            into.flush()
        except BrokenPipeError:
            raise GitRefused(f"git cannot read '{entry.path}'") from None
        header = out.readline().split()
        if len(header) != 3 or int(header[2]) != entry.size:
            raise GitRefused(f"git cannot read '{entry.path}'")
        left = entry.size
        while left:
            block = out.read(min(left, 1024 * 1024))
            if not block:
                raise GitRefused(f"git cannot read '{entry.path}'")
            left -= len(block)
            yield block
        out.read(1)  # the line's end


Process = subprocess.Popen[bytes]


@contextlib.contextmanager
def opened(
    directory: Path,
    wanted: Wanted,
    stop: threading.Event,
    transports: Sequence[str] = TRANSPORTS,
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
        if is_ssh(wanted.url):
            key = stack.enter_context(_nameless(wanted.secret))
            environment |= _with_key(scratch, wanted, key)
        elif wanted.secret:
            environment |= _with_token(scratch, wanted)
        if wanted.ca_certificate:
            (scratch / "ca.pem").write_text(wanted.ca_certificate)
            environment["GIT_SSL_CAINFO"] = str(scratch / "ca.pem")
        yield Git(directory / "repository", scratch, environment, wanted, stop)


def _settings(transports: Sequence[str]) -> str:
    allowed = "".join(f'[protocol "{name}"]\n\tallow = always\n' for name in transports)
    return (
        "[protocol]\n\tallow = never\n" + allowed + "[core]\n\thooksPath = /dev/null\n"
        "\tfsmonitor = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
        f"[http]\n\tlowSpeedLimit = {_SLOWEST_BYTES}\n\tlowSpeedTime = {_SLOWEST_SECONDS}\n"
        # A repository on the shared filesystem belongs to one of the cluster's users. What git
        # reads of it to send it, it reads as of somebody it does not trust.
        "[safe]\n\tdirectory = *\n"
    )


def _with_token(scratch: Path, wanted: Wanted) -> dict[str, str]:
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


def _with_key(scratch: Path, wanted: Wanted, key: str) -> dict[str, str]:
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
def _nameless(key: str) -> Iterator[str]:
    """A path by which processes of this user read the key, while this process has it open."""
    descriptor = os.memfd_create("key")
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, 0o600)
        stream.write(key.rstrip("\n").encode() + b"\n")  # ssh takes no key without a line's end
        stream.flush()
        yield f"/proc/{os.getpid()}/fd/{descriptor}"


def _end(process: Process) -> None:
    """git has children of its own: curl's and ssh's."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    streams: list[IO[bytes] | None] = [process.stdin, process.stdout, process.stderr]
    for stream in streams:
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


# -- words ---------------------------------------------------------------------------------------
_NOT_NOW = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|timed out|Timeout was reached|"
    r"Failed to connect|Couldn't connect|Connection (refused|reset|closed)|Network is unreachable|"
    r"No route to host|early EOF|unexpected disconnect|Operation too slow|remote end hung up|"
    r"recv error|SSL_read|SSL_ERROR_SYSCALL|Error in the (pull|push) function|Empty reply|"
    r"transfer closed|HTTP/2 stream|returned error: (429|5\d\d)",
    re.I,
)
_NO_REF = re.compile(r"couldn't find remote ref|not our ref|unadvertised object", re.I)
_NO_HOST_KEY = re.compile(r"Host key verification failed|No \S+ host key is known", re.I)
_NO_CERTIFICATE = re.compile(r"certificate (verif|problem)|issuer certificate|CAfile", re.I)
_NOT_VALID_NOW = re.compile(r"certificate (has expired|is not yet valid)", re.I)
_BAD_KEY = re.compile(r"error in libcrypto|invalid format|Load key", re.I)
_NOT_ALLOWED = re.compile(
    r"Authentication failed|could not read (Username|Password)|Permission denied|"
    r"unable to get password|returned error: (401|403)|Access denied|terminal prompts disabled",
    re.I,
)
_NO_REPOSITORY = re.compile(
    r"repository .*not found|does not appear to be a git repository|returned error: 404|"
    r"does not exist|not found",
    re.I,
)


def why(wanted: Wanted, complaint: str) -> GitRefused | GitUnreachable:
    """git's own words as one sentence that says what would be right."""
    said = _last_words(wanted, complaint)
    url, secret = wanted.url, "the secret of job.git.secret"
    if _NO_HOST_KEY.search(complaint):
        return GitRefused(
            f"the key of {host_of(url)} is not known, so it may be another server; give the keys "
            "that it publishes in job.git.knownHosts"
        )
    if url.startswith("https://") and _NOT_VALID_NOW.search(complaint):
        return GitRefused(
            f"the certificate of {host_of(url)} is not valid now: it has to be renewed there, or "
            f"the controller's clock is wrong ({said})"
        )
    if url.startswith("https://") and _NO_CERTIFICATE.search(complaint):
        return GitRefused(
            f"the certificate of {host_of(url)} is signed by no authority that the controller "
            f"knows: give that authority's in job.git.caCertificate ({said})"
            if not wanted.ca_certificate
            else f"job.git.caCertificate did not sign the certificate of {host_of(url)}: give that "
            f"of the authority that did ({said})"
        )
    if _NO_REF.search(complaint):
        hint = "" if COMMIT.fullmatch(wanted.ref) else "; a commit needs all its 40 digits"
        return GitRefused(f"'{wanted.ref}' is not in {url}{hint}: correct job.git.ref")
    if _BAD_KEY.search(complaint):
        return GitRefused(f"{secret} is no private key that ssh can read without a passphrase")
    if _NOT_ALLOWED.search(complaint):
        advice = f"{secret} may not read it" if wanted.secret else "name a secret in job.git.secret"
        return GitRefused(f"{host_of(url)} does not let us read {url}: {advice} ({said})")
    if _NO_REPOSITORY.search(complaint):
        advice = f", or {secret} may not read it" if wanted.secret else ", or it needs a secret"
        return GitRefused(f"there is no repository {url}{advice}: correct job.git ({said})")
    if _NOT_NOW.search(complaint):
        return GitUnreachable(f"{host_of(url) or url} does not answer: {said}")
    return GitRefused(f"git cannot fetch {url}: {said}")


def _last_words(wanted: Wanted, complaint: str) -> str:
    text = complaint.replace(wanted.secret, "(secret)") if wanted.secret else complaint
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    told = next(iter(fatal or lines[-1:]), "it said nothing")
    return "".join(sign for sign in told if sign.isprintable())[:300]
