"""Writes a checkpoint's files beside training, in a process of each rank that is forked before the
rank starts anything else.

Every rank's writer puts its files and, last, a report of them (its part) into the temporary
directory. The first rank's writer waits for the parts of all ranks, writes the manifest and renames
the directory. No training step waits for any of that.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import torch

from trainyard_job.checkpoints import checkpoint
from trainyard_job.checkpoints.checkpoint import FileEntry
from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import CheckpointFailed, ConfigError, Fenced
from trainyard_job.common.files import write_json
from trainyard_job.ranks import courier

from .staging import Placed, SharedMemory, identity, replaced

#: Linux, <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1
_PARTS = ".parts"
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Part:
    """One rank's share of a checkpoint.

    `files` maps names to nested dicts and lists of tensors and plain values, or to bytes.
    """

    target: Path
    step: int
    serial: int
    rank: int
    world_size: int
    files: Mapping[str, object]
    spare: frozenset[Path] = frozenset()

    @property
    def commits(self) -> bool:
        """Whether this rank waits for the others and commits."""
        return self.rank == 0


class Answer(NamedTuple):
    """How far a part has come.

    `written`: this rank's files are durable; `committed`: the whole checkpoint is there.
    """

    serial: int
    word: Literal["written", "committed", "failed", "fenced"]
    reason: str = ""

    def last_of(self, part: Part) -> bool:
        """Whether the writer reports nothing more of this part."""
        return self.serial == part.serial and (self.word != "written" or not part.commits)


def write(attempt: Attempt, part: Part) -> Answer:
    """Write this rank's files and the report of them.

    Never raises: the answer is `written` or `failed`.
    """
    temporary = checkpoint.temporary_directory(part.target, attempt)
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        entries = [
            checkpoint.write_file(temporary, name, content_writer(content))
            for name, content in part.files.items()
        ]
        _report(temporary, part, {"files": [asdict(entry) for entry in entries]})
        _carry(attempt, temporary, part)
    # torch.save reports a failed write as RuntimeError
    except (OSError, RuntimeError, ConfigError) as error:
        return Answer(part.serial, "failed", f"rank {part.rank}: {error}")
    return Answer(part.serial, "written")


def _carry(attempt: Attempt, temporary: Path, part: Part) -> None:
    """Where the hosts share no directory: bring the files to the first rank's, the report last."""
    carrier = courier.carrier(attempt.run_dir)
    if carrier is None:
        return
    report = _report_path(temporary, part, part.rank)
    for path in [*(temporary / name for name in part.files), report]:
        carrier.put(path, path)
        path.unlink()


def content_writer(content: object) -> checkpoint.Writer:
    """Writes bytes as they are and everything else by torch.save; the same content gives the same
    bytes.
    """
    if isinstance(content, bytes):
        return lambda stream: stream.write(content)
    return lambda stream: torch.save(_canonical(content), stream)


def _canonical(content: object) -> object:
    """The same values, pickled and read once: else the bytes would show which equal strings are one
    object.
    """
    tensors: list[torch.Tensor] = []
    known: dict[object, Placed] = {}

    def take(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        same = identity(leaf)
        if same not in known:  # tied weights are written once
            known[same] = Placed(len(tensors), leaf.dtype, ())
            tensors.append(_alone(leaf.detach()))
        return known[same]

    # Our own words of this moment.
    skeleton = pickle.loads(pickle.dumps(replaced(content, take)))  # noqa: S301
    return replaced(
        skeleton, lambda leaf: tensors[leaf.offset] if isinstance(leaf, Placed) else leaf
    )


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in memory of its own: of a view torch.save would write all the memory around it,
    too.
    """
    alone = (
        tensor.is_contiguous()
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    )
    return tensor if alone else tensor.clone(memory_format=torch.contiguous_format)


def commit(attempt: Attempt, part: Part, given_up: Callable[[], bool]) -> Answer:
    """Wait for the parts of all ranks, commit, and prune older checkpoints.

    Never raises; unless `committed`, nothing is left.
    """
    temporary = checkpoint.temporary_directory(part.target, attempt)
    try:
        entries: list[FileEntry] = []
        for rank in range(part.world_size):
            entries += _await_report(temporary, part, rank, given_up)
        shutil.rmtree(temporary / _PARTS)
        checkpoint.commit(attempt, part.target, part.step, part.world_size, entries)
        if checkpoint.parse_name(part.target.name):
            checkpoint.prune(attempt.checkpoint_dir, attempt.keep, attempt, part.spare)
        return Answer(part.serial, "committed")
    except Fenced as error:
        answer = Answer(part.serial, "fenced", str(error))
    except (CheckpointFailed, OSError, ValueError, KeyError) as error:
        answer = Answer(part.serial, "failed", str(error))
    shutil.rmtree(temporary, ignore_errors=True)
    return answer


def _report_path(temporary: Path, part: Part, rank: int) -> Path:
    return temporary / _PARTS / f"{part.serial}-{rank}.json"


def _report(temporary: Path, part: Part, document: Mapping[str, object]) -> None:
    path = _report_path(temporary, part, part.rank)
    path.parent.mkdir(exist_ok=True)
    write_json(path, document)


def _await_report(
    temporary: Path, part: Part, rank: int, given_up: Callable[[], bool]
) -> list[FileEntry]:
    path = _report_path(temporary, part, rank)
    while not path.exists():
        if given_up():
            raise CheckpointFailed("another rank could not write its part")
        # Ours was there: what another rank now makes under this name has not our files.
        if not _report_path(temporary, part, part.rank).exists():
            raise CheckpointFailed(f"{temporary} was moved or removed while it was written")
        time.sleep(_POLL_SECONDS)
    return [FileEntry(**entry) for entry in json.loads(path.read_bytes())["files"]]


class WriterDied(Exception):
    """The writing process is gone."""


class Writer:
    """The writing process as its trainer sees it.

    Start it before process groups, threads and devices: it is a fork.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.memory = SharedMemory()
        self._connection, theirs = Pipe()
        self._busy: Part | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._connection.close()
            _serve(attempt, self.memory, theirs)
        theirs.close()

    def send(self, part: Part) -> None:
        """Hand over a part whose tensors are staged. Raises WriterDied."""
        self._busy = part
        self._send(part)

    def give_up(self, serial: int) -> None:
        """Let the first rank's writer stop waiting for the others' parts. Raises WriterDied."""
        self._send(serial)

    def _send(self, message: object) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise WriterDied from error

    def answer(self, timeout: float | None) -> Answer | None:
        """The next answer; None if there is none within `timeout` seconds (None: wait for it).

        Raises WriterDied.
        """
        try:
            if timeout is not None and not self._connection.poll(timeout):
                return None
            answer = Answer(*self._connection.recv())
        except (OSError, EOFError) as error:
            raise WriterDied from error
        if self._busy is not None and answer.last_of(self._busy):
            self._busy = None
        return answer

    def until_free(self) -> None:
        """Wait for the end of a part that was given up: its content is still in the shared memory.

        Raises WriterDied.
        """
        while self._busy is not None:
            self.answer(None)

    def close(self) -> None:
        """End the process; what it has not committed is not committed."""
        self._connection.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def _serve(attempt: Attempt, memory: SharedMemory, connection: Connection) -> NoReturn:
    """The process itself, until its trainer ends.

    It leaves without the clean-up of what it inherited.
    """
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (
            signal.SIGTERM,
            signal.SIGINT,
        ):  # Slurm signals all processes; the trainer's last checkpoint is written after that
            signal.signal(number, signal.SIG_IGN)
        os.nice(10)
        Path("/proc/self/comm").write_text("checkpoint-save")
        torch.set_num_threads(1)  # the pool's threads did not come along
        while True:
            message = connection.recv()
            if isinstance(message, Part):
                _serve_part(attempt, memory, connection, message)
    except (EOFError, OSError):
        code = 0
    finally:
        os._exit(code)


def _serve_part(attempt: Attempt, memory: SharedMemory, connection: Connection, part: Part) -> None:
    def content(leaf: object) -> object:
        return memory.tensor(leaf) if isinstance(leaf, Placed) else leaf

    def given_up() -> bool:
        return connection.poll() and connection.recv() == part.serial

    answer = write(attempt, replace(part, files=replaced(dict(part.files), content)))
    connection.send(tuple(answer))
    if part.commits and answer.word == "written":
        connection.send(tuple(commit(attempt, part, given_up)))
