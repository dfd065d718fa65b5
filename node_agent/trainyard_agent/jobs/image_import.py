"""Imports a job's image on the job's first node, once for all nodes and attempts.

The job's batch script runs it as `trainyard-agent prepare-image ATTEMPT_DIR`. What it makes is
named by the image's digest and is there whole or not at all: one rename puts it there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard_agent.host import registry
from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.registry import ImageRefused, Login
from trainyard_contracts import images, places

#: One import. The largest images that people train in have some 30 GB.
IMPORT_SECONDS = 3600.0
#: Before another try: networks fail for moments, and a registry may be busy.
PAUSES_SECONDS = (5.0, 20.0)
#: In memory on each node: what a login leaves there is gone with the machine at the latest.
MEMORY = Path("/dev/shm")  # noqa: S108
_PASSWORD = "TRAINYARD_REGISTRY_PASSWORD"  # noqa: S105 - a variable's name
_CREDENTIALS = "trainyard-image-"


class ImportFailed(Exception):
    """The image could not be brought to the shared filesystem, in words."""


class Busy(Exception):
    """Another process has the image's lock."""


class NeedsPyxis(ImportFailed):
    """This node has no Enroot or no Pyxis."""


@dataclass(frozen=True)
class Import:
    """One image, and where it is imported to."""

    name: str
    digest: str
    target: Path
    memory: Path = MEMORY
    login: Callable[[str], Login | None] = registry.login

    @property
    def uri(self) -> str:
        """As every Enroot since 3.1 reads it: a digest in the place of the tag."""
        at = images.reference(self.name)
        user = "AWS@" if registry.ecr_region(at.registry) else ""
        return f"docker://{user}{at.registry}#{at.repository}:{self.digest}"

    @property
    def workplace(self) -> Path:
        """Beside the target, so that one rename is enough."""
        return self.target.with_name(f".{self.target.stem}.import")

    def run(self) -> None:
        """Import it unless it is there; who comes meanwhile waits. Raises ImportFailed, OSError."""
        require_programs()
        if images.is_file(self.name):
            if not self.target.exists():
                raise ImportFailed("the file is not there any more")
            return
        self.target.parent.mkdir(parents=True, exist_ok=True)
        with alone(self.target):
            if self.target.exists():
                os.utime(self.target)  # from now on nobody removes it: `image_room`
                return
            print(f"trainyard: importing job.image {self.name} ({self.digest})", flush=True)
            self._patiently()

    def _patiently(self) -> None:
        for pause in PAUSES_SECONDS:
            try:
                self._import()
            except (ImportFailed, Unreachable) as error:
                print(f"trainyard: {error}; trying again", flush=True)
                time.sleep(pause)
            else:
                return
        try:
            self._import()
        except Unreachable as error:
            raise ImportFailed(str(error)) from error

    def _import(self) -> None:
        shutil.rmtree(self.workplace, ignore_errors=True)  # of a node that went down
        made, cache = self.workplace / "image.sqsh", self.workplace / "cache"
        cache.mkdir(parents=True)
        try:
            who = self.login(images.reference(self.name).registry)
        except ImageRefused as refused:
            raise ImportFailed(str(refused)) from None
        with _credentials(self.memory) as directory:
            # Enroot keeps the login's token here while it downloads.
            (cache / f".tokens.{os.geteuid()}").symlink_to(directory)
            environment = {
                "ENROOT_CONFIG_PATH": str(directory),
                "ENROOT_CACHE_PATH": str(cache),
                "ENROOT_TRANSFER_RETRIES": "3",
            }
            if who is not None:
                at = images.reference(self.name).registry
                line = f"machine {at} login {who.user} password ${_PASSWORD}\n"
                replace_file(directory / ".credentials", line.encode(), mode=0o600)
                environment[_PASSWORD] = who.password
            enroot(["import", "--output", str(made), self.uri], environment)
        _sync(made)
        made.replace(self.target)
        shutil.rmtree(self.workplace, ignore_errors=True)


def require_programs() -> None:
    """Raises NeedsPyxis."""
    if shutil.which("enroot") is None:
        raise NeedsPyxis("Enroot is not installed on this node")
    try:
        text = subprocess.run(
            ["srun", "--help"], capture_output=True, text=True, check=False, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    if "--container-image" not in text:
        raise NeedsPyxis("srun has no option --container-image here: Pyxis is not installed")


def enroot(words: list[str], environment: Mapping[str, str]) -> None:
    """Run Enroot; what it says goes into the job's log. Raises ImportFailed with its last words."""
    # SLURM_* stays: hooks of the node's may read it.
    said: deque[str] = deque(maxlen=20)
    with subprocess.Popen(
        ["enroot", *words],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        timer = threading.Timer(IMPORT_SECONDS, process.kill)
        timer.start()
        for line in process.stderr:
            shown = _hidden(line.rstrip(), environment)
            if shown:
                said.append(shown)
                print(f"enroot: {shown}", flush=True)
        code = process.wait()
        timer.cancel()
    # Enroot only warns of it. A run that was resumed on nodes of another kind has such a digest.
    if other := next((line for line in said if "architecture doesn't match" in line), None):
        raise ImportFailed(f"it is not for this node's processors: {other}")
    if code != 0:
        errors = [line for line in said if "ERROR" in line] or list(said)
        last = errors[-1] if errors else "it said nothing"
        raise ImportFailed(f"enroot import ended with {code}: {last}")


def _hidden(line: str, environment: Mapping[str, str]) -> str:
    password = environment.get(_PASSWORD)
    return line.replace(password, "(secret)") if password else line


@contextlib.contextmanager
def alone(image: Path, *, wait: bool = True) -> Iterator[None]:
    """One import or removal of an image at a time, on all nodes that share the file system.

    Raises Busy instead of waiting, if told so.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(image.with_name(f".{image.stem}.lock"), flags, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Busy from None
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _credentials(memory: Path) -> Iterator[Path]:
    """A directory in this node's memory that nobody else can read; nothing of it stays.

    An import that was killed leaves it; the next one on this node removes it.
    """
    for left in memory.glob(f"{_CREDENTIALS}*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"{_CREDENTIALS}{os.getpid()}-", dir=memory))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _sync(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


# -- the command ---------------------------------------------------------------------------------
def main(directory: str) -> int:
    """0, or 1 with the reason in the log and in the report of this node's part."""
    attempt_dir = Path(directory)
    job = json.loads((attempt_dir / places.JOB).read_text(encoding="utf-8"))
    target = Path((attempt_dir / places.IMAGE).read_text(encoding="utf-8"))
    image, started = job["image"], time.time()
    try:
        Import(image["name"], image["digest"], target).run()
    except (ImportFailed, OSError) as error:
        words = f"job.image '{image['name']}' cannot be used: {error}"
        print(f"trainyard: {words}", file=sys.stderr, flush=True)
        _report(attempt_dir, job, started, words, type(error))
        return 1
    return 0


def _report(
    attempt_dir: Path, job: Mapping[str, Any], started: float, words: str, kind: type[Exception]
) -> None:
    """As the launcher of this node would have ended, had it begun."""
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    report = {
        "node": node,
        "attempt": job["attempt"],
        "pid": os.getpid(),
        "started": started,
        "ended": time.time(),
        "exitCode": 1,
        "signal": None,
        "rank": None,
        "kind": "python-error",
        "error": words,
        "exception": kind.__name__,
        # Where one node lacks Enroot, others may have it.
        "lasting": "environment" if kind is NeedsPyxis else None,
    }
    replace_file(attempt_dir / places.launch_report(node), json.dumps(report).encode())
