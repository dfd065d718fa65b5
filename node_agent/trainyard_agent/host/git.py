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
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from trainyard_agent.host.git_access import TRANSPORTS, nameless, settings, with_key, with_token
from trainyard_agent.host.git_wanted import Entry, GitRefused, GitUnreachable, Stopped, Wanted
from trainyard_agent.host.git_words import why
from trainyard_contracts.git_code import is_ssh

#: A fetch takes so long at most.
MOST_SECONDS = 3600.0
_POLL_SECONDS = 0.2
#: What else of the agent's environment git may need to reach a server.
_PASSED = re.compile(r"PATH|SSL_CERT_(FILE|DIR)|(?i:(https?|all|no)_proxy)")


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
        (scratch / "config").write_text(settings(transports))
        environment = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
        environment |= {
            "HOME": str(scratch),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(scratch / "config"),
            "GIT_TERMINAL_PROMPT": "0",
        }
        if is_ssh(wanted.url):
            key = stack.enter_context(nameless(wanted.secret))
            environment |= with_key(scratch, wanted, key)
        elif wanted.secret:
            environment |= with_token(scratch, wanted)
        if wanted.ca_certificate:
            (scratch / "ca.pem").write_text(wanted.ca_certificate)
            environment["GIT_SSL_CAINFO"] = str(scratch / "ca.pem")
        yield Git(directory / "repository", scratch, environment, wanted, stop)


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
