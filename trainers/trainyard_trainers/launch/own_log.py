"""Gives this process's output a file of its own, so that one rank's lines can be told from all
others'.

The process writes into the file itself: nothing is between a program and its log, and a kill loses
no line that was printed. The node's launcher relays the file into the job's log (`relay.py`).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from trainyard_job.common import places

#: The node's directory of such files; without it output goes where it went before.
DIRECTORY = "TRAINYARD_RANK_LOGS"
#: Says that the program runs once on the node, whatever RANK it may have.
_NO_RANKS = "TRAINYARD_NO_RANKS"
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o666


def without_ranks() -> None:
    """What is started from here is the node's one program."""
    os.environ[_NO_RANKS] = "1"


def kept_out(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for ranks whose output somebody reads through a pipe."""
    return {name: value for name, value in environment.items() if name != DIRECTORY}


def take() -> None:
    """From now on stdout and stderr of this process are its own file; the second time nothing
    happens. If there can be no file, all stays as it was.
    """
    path = _path(os.environ)
    if path is None:
        return
    try:
        opened = os.open(path, _APPEND, _MODE)
    except OSError as error:
        print(
            f"trainyard: {path} cannot be opened ({error.strerror}): what this rank prints is in "
            "the job's log alone",
            file=sys.stderr,
            flush=True,
        )
        return
    sys.stdout.flush()
    sys.stderr.flush()
    spare = os.dup(1)  # which no program that this one starts inherits
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    os.close(opened)
    sys.stdout = sys.__stdout__ = _over(sys.stdout, 1, spare)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _over(sys.stderr, 2, spare)  # type: ignore[misc]


def _path(environment: MutableMapping[str, str]) -> Path | None:
    """The file that this process should have, once: what it starts writes into the same."""
    directory, alone = environment.pop(DIRECTORY, ""), environment.pop(_NO_RANKS, "")
    rank = environment.get("RANK", "")
    if not directory or not (alone or rank.isdecimal()):
        return None
    return Path(directory, places.rank_log(None if alone else int(rank)))


class _Own(io.FileIO):
    """Writes to the file; what it cannot take (a full disk) goes where output went before, since
    no program should end because its log cannot be written.
    """

    def __init__(self, descriptor: int, spare: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._spare = spare

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            try:
                done += super().write(view[done:]) or 0
            except OSError:
                done += os.write(self._spare, view[done:])
        return done


def _over(stream: Any, descriptor: int, spare: int) -> Any:
    """The stream, buffered as it was, over the file."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = _Own(descriptor, spare)
    raw.name = stream.name
    plain = isinstance(stream.buffer, io.RawIOBase)
    return io.TextIOWrapper(
        raw if plain else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
