"""How the ranks of a job come to know the same, without torch: each writes lines into a file of its
own in the attempt's directory, and the first rank's file has what holds for all.

Every rank makes the same calls in the same order, so a line is known by its number. A rank holds a
lock on its file while it lives. So the others see at once that it is gone, and need not wait for
the time limit; where a file system has no locks, the limit alone ends the wait.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ..common.exits import CheckpointFailed, Fenced
from .board import Board, Carrier, FileBoard, Take
from .place import Place

#: A rank that lives is waited for this long; a rank may write a large file at that time.
WAIT_SECONDS = 1800.0
_FIRST_PAUSE, _LAST_PAUSE = 0.001, 0.05
_LOOK_SECONDS = 1.0

_T = TypeVar("_T")
Line = dict[str, Any]


class _Reader:
    """The lines of another rank, one after the other."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._skip = 0

    def skip(self) -> None:
        """Leave out a line that will come and that nobody waits for."""
        self._skip += 1

    def next(self) -> Line | None:
        """The next whole line; None while there is none. Raises OSError."""
        while (line := self._take()) is not None:
            if not self._skip:
                return dict(json.loads(line))
            self._skip -= 1
        return None


class Meeting:
    """One process's part in the meeting of all ranks; a single rank meets nobody and writes
    nothing.

    After an error no rank knows how far the others are: all later calls raise it again.
    """

    def __init__(
        self,
        directory: Path,
        place: Place,
        *,
        wait_seconds: float = WAIT_SECONDS,
        board: Board | None = None,
    ) -> None:
        self.directory = directory
        self.place = place
        self._board: Board = board or FileBoard(directory, place.rank)
        self._wait_seconds = wait_seconds
        self._nonce = secrets.token_hex(8)
        self._locked: dict[int, bool] = {}
        self._readers: dict[int, _Reader] = {}
        self._lost: str | None = None

    @property
    def carrier(self) -> Carrier | None:
        """What brings this rank's files to the first one's host; None where they are there."""
        return self._board.carrier

    # -- what the ranks do together ---------------------------------------------------------------
    def agree(self, what: str, mine: Any, decide: Callable[[list[Any]], _T]) -> _T:
        """Every rank brings a JSON value; what the first rank decides on all of them is returned
        on each.

        What `decide` raises is raised on each rank: Fenced, or CheckpointFailed.
        """
        if self.place.world_size == 1:
            return self._alone(lambda: decide([mine]))
        self._check()
        if self.place.rank:
            self._append({"what": what, "value": mine})
            return cast(_T, self._answer(what))
        return self._say(what, lambda: decide([mine, *self._collect(what)]))

    def announce(self, what: str, decide: Callable[[], _T]) -> _T:
        """What the first rank decides is returned on each; it waits for nobody."""
        if self.place.world_size == 1:
            return self._alone(decide)
        self._check()
        if self.place.rank:
            return cast(_T, self._answer(what))
        return self._say(what, decide)

    def abandon(self, what: str, reason: str) -> None:
        """Leave an `agree` that will not be called here, since an exception is on its way: the
        others fail with this reason.
        """
        if self.place.world_size == 1 or self._lost is not None:
            return
        with contextlib.suppress(CheckpointFailed):
            if self.place.rank:
                self._append({"what": what, "value": {"failed": reason}})
            else:
                self._append({"what": what, "failed": reason})
            for reader in self._readers.values():
                reader.skip()

    def join(self, prepare: Callable[[], None]) -> None:
        """Meet all ranks of this start of the job; `prepare` is called on the first one before.

        What an earlier start of the same attempt left is not taken for a rank of this one. Raises
        Fenced and CheckpointFailed.
        """
        if self.place.world_size == 1:
            self._alone(prepare)
        elif self.place.rank:
            self._greet()
        else:
            self._welcome(prepare)

    def is_marked(self, name: str) -> bool:
        """Whether any rank made this mark."""
        try:
            return self._board.is_marked(name)
        except OSError:  # the next line that is needed says what is wrong
            return False

    def mark(self, name: str) -> None:
        """A sign for the first rank, which looks for it when it likes."""
        self._board.mark(name)

    # -- coming together --------------------------------------------------------------------------
    def _open_own(self) -> None:
        locked = self._reaching(self._board.open_own)
        self._append({"what": "hello", "value": {"nonce": self._nonce, "locked": locked}})

    def _welcome(self, prepare: Callable[[], None]) -> None:
        self._reaching(self._board.clear)
        self._open_own()
        others = range(1, self.place.world_size)
        self._readers = {rank: _Reader(self._board.reader(rank)) for rank in others}
        hellos = self._collect("hello")
        self._locked = {rank: hello["locked"] for rank, hello in enumerate(hellos, 1)}
        self._append({"what": "seen", "value": [hello["nonce"] for hello in hellos]})
        self._say("welcome", prepare)

    def _greet(self) -> None:
        """Say hello until the first rank has seen it: it removes what lies there when it comes."""
        deadline, pause = self._deadline(), _FIRST_PAUSE
        while True:
            if not self._reaching(self._board.has_own):
                self._open_own()
            reader = _Reader(self._board.reader(0))
            hello = self._reaching(reader.next)
            seen = self._reaching(reader.next) if hello else None
            if hello and seen and self._nonce in seen["value"]:
                break
            if time.monotonic() > deadline:
                raise self._missing(0, "the start")
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
        self._readers = {0: reader}
        self._locked = {0: bool(hello["value"]["locked"])}
        self._answer("welcome")

    # -- lines ------------------------------------------------------------------------------------
    def _append(self, line: Line) -> None:
        self._reaching(lambda: self._board.append(json.dumps(line).encode() + b"\n"))

    def _reaching(self, look: Callable[[], _T]) -> _T:
        """Raises CheckpointFailed, now and at every later call, where the others are out of
        reach.
        """
        try:
            return look()
        except OSError as error:
            raise self._given_up(str(error)) from error

    def _say(self, what: str, decide: Callable[[], _T]) -> _T:
        """On the first rank."""
        try:
            value = decide()
        except Fenced as error:
            self._append({"what": what, "fenced": str(error)})
            raise
        except (CheckpointFailed, OSError, ValueError) as error:
            self._append({"what": what, "failed": str(error), "lost": self._lost is not None})
            raise CheckpointFailed(str(error)) from error
        self._append({"what": what, "value": value})
        return value

    @staticmethod
    def _alone(decide: Callable[[], _T]) -> _T:
        """The same errors as with others."""
        try:
            return decide()
        except (OSError, ValueError) as error:
            raise CheckpointFailed(str(error)) from error

    def _answer(self, what: str) -> Any:
        """On any other rank."""
        return self._open(self._read(0, what, self._deadline()))

    def _open(self, line: Line) -> Any:
        if "fenced" in line:
            raise Fenced(line["fenced"])
        if "failed" in line:
            if line.get("lost"):
                self._lost = line["failed"]
            raise CheckpointFailed(line["failed"])
        return line["value"]

    def _collect(self, what: str) -> list[Any]:
        deadline = self._deadline()
        return [self._read(rank, what, deadline)["value"] for rank in self._readers]

    def _read(self, rank: int, what: str, deadline: float) -> Line:
        reader, pause, looked = self._readers[rank], _FIRST_PAUSE, time.monotonic()
        while (line := self._reaching(reader.next)) is None:
            now = time.monotonic()
            if now - looked > _LOOK_SECONDS:
                looked = now
                if self._is_gone(rank) and (line := self._reaching(reader.next)) is None:
                    raise self._given_up(f"rank {rank} ended before it came to {what}")
                if line is not None:
                    break
            if now > deadline:
                raise self._missing(rank, what)
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
        if line["what"] != what:
            raise self._given_up(
                f"rank {rank} is at {line['what']}, and rank {self.place.rank} at {what}: every "
                "rank must make the same calls of trainyard_job in the same order"
            )
        return line

    def _is_gone(self, rank: int) -> bool:
        """Whether the rank's process has ended."""
        return bool(self._locked.get(rank)) and self._reaching(lambda: self._board.is_gone(rank))

    # -- the end of it ----------------------------------------------------------------------------
    def _deadline(self) -> float:
        return time.monotonic() + self._wait_seconds

    def _check(self) -> None:
        if self._lost is not None:
            raise CheckpointFailed(self._lost)

    def _missing(self, rank: int, what: str) -> CheckpointFailed:
        return self._given_up(
            f"rank {rank} did not come to {what} within {self._wait_seconds:.0f} s. The ranks meet "
            f"in {self.directory}, which must be on a file system that all of them share; "
            "TRAINYARD_RANKS_WAIT_SECONDS sets how long they wait"
        )

    def _given_up(self, reason: str) -> CheckpointFailed:
        self._lost = reason
        return CheckpointFailed(reason)
