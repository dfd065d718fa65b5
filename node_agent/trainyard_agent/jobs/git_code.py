"""Makes of a commit what an upload is: a tree and packs in S3, so that every attempt has its bytes.

Nothing here is needed twice: after a kill at any line the next command begins anew, and what lies
in S3 already is not sent again.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.host.background import in_own_thread
from trainyard_agent.host.digests import Digest
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.git import opened
from trainyard_agent.host.git_access import TRANSPORTS
from trainyard_agent.host.git_wanted import GitRefused, GitUnreachable, Stopped, Wanted
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.job_secrets import SecretRefused, Secrets
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs import work
from trainyard_agent.jobs.git_tree import make_tree
from trainyard_contracts.bundle_parts import BundleGit
from trainyard_contracts.commands import CheckedOut
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import (
    Pack,
    tree_id,
)

log = logging.getLogger(__name__)

# A command waits so long for the commit, and is then answered that it is still being fetched.
WAIT_SECONDS = 30.0
# A server that does not answer is asked again after each of these; then the run ends.
PAUSES_SECONDS = (2.0, 5.0, 15.0, 30.0, 60.0)
_AT_ONCE = 8
_STAGE = f"{work.UNPACKING}git-"


@dataclass(frozen=True)
class Checkout:
    """One commit on its way into S3; all of it runs in a thread."""

    s3: S3
    secrets: Secrets
    bucket: str
    root: Path
    shared: Shared
    bundle: JobBundle
    stop: threading.Event
    transports: Sequence[str] = TRANSPORTS

    @property
    def asked(self) -> BundleGit:
        assert self.bundle.git is not None
        return self.bundle.git

    def run(self) -> CheckedOut:
        """Raises CommandRefused, OSError."""
        self.root.mkdir(parents=True, exist_ok=True)
        for left in self.root.glob(f"{_STAGE}*"):  # of an agent that died
            shutil.rmtree(left, ignore_errors=True)
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=self.root))
        try:
            return self._fetched(stage)
        except GitRefused as refused:
            words = self.shared.words(str(refused))
            field = "" if words.startswith("job.") else "job.git: "
            raise CommandRefused("git-refused", f"{field}{words}") from refused
        except Stopped:
            raise CommandRefused(
                "fetching", "job.git: the agent ends; the same command again is safe"
            ) from None
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def _fetched(self, stage: Path) -> CheckedOut:
        (stage / "packs").mkdir()
        with opened(stage, self._wanted(), self.stop, self.transports) as git:
            commit = self._patiently(git.fetch)
            entries = git.entries(git.tree(commit, self.asked.path))
            self._check_program({entry.path for entry in entries}, commit)
            made = make_tree(git, entries, stage / "packs")
        document = made.tree.document()
        name = tree_id(document)
        (stage / "packs" / name).write_bytes(document)
        self._send([*made.tree.packs, Pack(sha256=name, bytes=len(document))], stage / "packs")
        self._leave_for_unpacking(stage / "packs", name)
        size = sum(file.bytes for file in made.tree.files)
        return CheckedOut(commit, name, len(made.tree.files), size, made.note)

    def _wanted(self) -> Wanted:
        git = self.asked
        url = str(self.shared.find(git.url)) if git.url.startswith("/") else git.url
        hosts = tuple(git.known_hosts)
        return Wanted(url, git.ref, self._secret(), hosts, git.ca_certificate or "")

    def _secret(self) -> str:
        if self.asked.secret is None:
            return ""
        try:
            return self.secrets.read({"git": self.asked.secret})["git"].strip()
        except SecretRefused as refused:
            raise CommandRefused("secret-refused", f"job.git.secret: {refused}") from refused
        except Unreachable as error:
            words = f"Secrets Manager does not answer: {error}; the same command again is safe"
            raise CommandRefused("unreachable", words) from error

    def _patiently(self, call: Callable[[], str]) -> str:
        for pause in (*PAUSES_SECONDS, None):
            try:
                return call()
            except GitUnreachable as error:
                if pause is None:
                    raise GitRefused(
                        f"{error}; it was tried {len(PAUSES_SECONDS) + 1} times"
                    ) from None
                log.warning("%s: %s", self.bundle.run_id, error)
                if self.stop.wait(pause):
                    raise Stopped from None
        raise AssertionError  # the last try returns or raises

    def _check_program(self, paths: set[str], commit: str) -> None:
        script = self.bundle.program[0]
        if script != "-m" and script not in paths and script not in self.bundle.files:
            below = f"'{self.asked.path}' of " if self.asked.path else ""
            raise GitRefused(f"job.script: '{script}' is not in {below}commit {commit[:12]}")

    def _send(self, packs: Sequence[Pack], directory: Path) -> None:
        at = Location(self.bucket, self.asked.prefix)

        def send(pack: Pack) -> None:
            if self.stop.is_set():
                raise Stopped
            checksum = b64encode(bytes.fromhex(pack.sha256)).decode()
            if self.s3.head(at.under(pack.sha256)) != (pack.bytes, checksum):
                known = Digest(pack.bytes, pack.sha256, checksum)
                self.s3.put_file(at.under(pack.sha256), directory / pack.sha256, known)

        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(send, packs))
        except Unreachable as error:
            raise CommandRefused(
                "unreachable", f"S3 does not answer: {error}; the same command again is safe"
            ) from error
        except Refused as error:
            raise GitRefused(f"S3 refuses what was fetched, below {at.key}: {error}") from error

    def _leave_for_unpacking(self, packs: Path, tree: str) -> None:
        """The submit that follows finds the packs here and need not fetch them (`unpacking.py`)."""
        stage = self.root / f"{work.UNPACKING}{tree[:16]}"
        if not stage.exists():
            stage.mkdir()
            packs.rename(stage / "packs")


@dataclass(frozen=True)
class Shared:
    """The shared filesystem: where it is here, and the path at which a spec names it."""

    root: Path
    named: Path

    def words(self, text: str) -> str:
        """What git says of a path here, as the spec has it."""
        return text.replace(str(self.root), str(self.named))

    def find(self, url: str) -> Path:
        """Where the repository lies on this node. Raises GitRefused."""
        path = Path(url)
        if path.is_relative_to(self.named):
            path = self.root / path.relative_to(self.named)
        if not _is_below(path, self.root):
            raise GitRefused(
                f"'{url}' does not lie on the shared filesystem ({self.named}); correct job.git.url"
            )
        return path


def _is_below(path: Path, top: Path) -> bool:
    return path.resolve().is_relative_to(top.resolve()) and path.resolve() != top.resolve()


class Checkouts:
    """One checkout at a time for each run; a command that is repeated waits for the same."""

    def __init__(self, s3: S3, secrets: Secrets, shared: Shared) -> None:
        self._s3, self._secrets, self._shared = s3, secrets, shared
        self._running: dict[str, asyncio.Task[CheckedOut]] = {}

    async def bring(self, root: Path, bundle: JobBundle, bucket: str) -> CheckedOut:
        """Raises what the checkout ends with, or CommandRefused while it goes on."""
        deadline = time.monotonic() + WAIT_SECONDS
        if bundle.run_id not in self._running:
            checkout = Checkout(
                self._s3, self._secrets, bucket, root, self._shared, bundle, threading.Event()
            )
            self._running[bundle.run_id] = asyncio.create_task(_in_thread(checkout))
            self._running[bundle.run_id].add_done_callback(_noted)
        task = self._running[bundle.run_id]
        await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
        if not task.done():
            raise CommandRefused(
                "fetching", "job.git is still being fetched; the same command again is safe"
            )
        try:
            return task.result()
        except BaseException:
            self._running.pop(bundle.run_id, None)  # what failed is tried anew
            raise


async def _in_thread(checkout: Checkout) -> CheckedOut:
    try:
        return await in_own_thread(checkout.run)
    finally:
        checkout.stop.set()


def _noted(task: asyncio.Task[CheckedOut]) -> None:
    """The next command meets it again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a commit could not be fetched: %s", error)
