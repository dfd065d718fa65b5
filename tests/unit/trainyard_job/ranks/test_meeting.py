"""Ranks that meet in a directory know the same, and a rank that is gone keeps nobody waiting."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import job_ranks
from tests.support.patience import patient

from trainyard_job import CheckpointFailed, ConfigError, Fenced
from trainyard_job.ranks import board
from trainyard_job.ranks.meeting import Meeting
from trainyard_job.ranks.place import Place


def meet(directory: Path, world: int, calls: Callable[[Meeting], Any]) -> list[Any]:
    """What the calls return, or raise, on each rank; the ranks are threads."""
    found: list[Any] = [None] * world

    def run(rank: int) -> None:
        try:
            part = Meeting(directory, Place(rank, world), wait_seconds=patient(20))
            part.join(lambda: None)
            found[rank] = calls(part)
        except (CheckpointFailed, Fenced) as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture(autouse=True)
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that are threads have one process's locks."""

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(board.fcntl, "lockf", refuse)


def test_what_the_first_rank_decides_on_all_values_is_known_to_all(tmp_path: Path) -> None:
    def calls(part: Meeting) -> list[Any]:
        return [part.agree(f"sum {i}", part.place.rank + i, sum) for i in range(3)]

    assert meet(tmp_path, 4, calls) == [[6, 10, 14]] * 4


def test_what_the_first_rank_announces_waits_for_nobody(tmp_path: Path) -> None:
    def calls(part: Meeting) -> list[Any]:
        return [part.announce(f"step {i}", lambda i=i: i * i) for i in range(50)]  # type: ignore[misc]

    assert meet(tmp_path, 2, calls) == [[i * i for i in range(50)]] * 2


def test_an_error_of_the_first_rank_is_raised_on_all_and_the_next_call_works(
    tmp_path: Path,
) -> None:
    def refuse(_: list[Any]) -> None:
        raise OSError(28, "No space left on device")

    def calls(part: Meeting) -> Any:
        with pytest.raises(CheckpointFailed, match="No space left"):
            part.agree("a save", None, refuse)
        return part.agree("the next", 1, sum)

    assert meet(tmp_path, 2, calls) == [2, 2]


@pytest.mark.parametrize("leaving", [0, 1])
def test_who_leaves_a_call_fails_it_for_the_others_and_nobody_waits(
    tmp_path: Path, leaving: int
) -> None:
    def decide(values: list[Any]) -> None:
        for value in values:
            if value:
                raise CheckpointFailed(value["failed"])

    def calls(part: Meeting) -> Any:
        if part.place.rank == leaving:
            part.abandon("a save", "rank x: KeyError: 1")
        else:
            with pytest.raises(CheckpointFailed, match="rank x: KeyError: 1"):
                part.agree("a save", None, decide)
        return part.agree("the next", 1, sum)

    assert meet(tmp_path, 3, calls) == [3, 3, 3]


def test_ranks_that_are_not_at_the_same_call_are_named(tmp_path: Path) -> None:
    def calls(part: Meeting) -> Any:
        return part.agree(f"step {part.place.rank}", 1, sum)

    first, second = meet(tmp_path, 2, calls)
    assert "rank 1 is at step 1, and rank 0 at step 0" in str(first)
    assert "the same calls" in str(second)


def test_what_an_earlier_start_left_is_no_rank_of_this_one(tmp_path: Path) -> None:
    assert meet(tmp_path, 2, lambda part: part.agree("a", part.place.rank, sum)) == [1, 1]
    for name in ("0.jsonl", "1.jsonl"):
        assert (tmp_path / name).exists()
    assert meet(tmp_path, 2, lambda part: part.agree("b", part.place.rank, sum)) == [1, 1]


def test_an_error_at_the_start_is_known_to_all(tmp_path: Path) -> None:
    def prepare() -> None:
        raise Fenced("attempt 1 is fenced")

    def run(rank: int, found: list[str]) -> None:
        with pytest.raises(Fenced) as error:
            Meeting(tmp_path, Place(rank, 2), wait_seconds=patient(20)).join(prepare)
        found.append(str(error.value))

    found: list[str] = []
    threads = [threading.Thread(target=run, args=(rank, found)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["attempt 1 is fenced"] * 2


def test_a_rank_that_never_comes_ends_the_wait_with_words(tmp_path: Path) -> None:
    for rank in (0, 1):
        alone = Meeting(tmp_path, Place(rank, 2), wait_seconds=0.2)
        with pytest.raises(CheckpointFailed, match=r"must be on a file system that all of them"):
            alone.join(lambda: None)
        with pytest.raises(CheckpointFailed, match=r"within 0 s"):
            alone.agree("a save", 1, sum)


def test_one_rank_meets_nobody_and_writes_nothing(tmp_path: Path) -> None:
    alone = Meeting(tmp_path / "meeting", Place())
    alone.join(lambda: None)
    assert alone.agree("a save", 7, sum) == 7
    assert alone.announce("a step", lambda: "yes") == "yes"
    assert not (tmp_path / "meeting").exists()


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, Place(0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, Place(3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Place(1, 2)),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}, Place(1, 4)),
        ({"SLURM_PROCID": "1", "RANK": "5", "WORLD_SIZE": "6"}, Place(5, 6)),
        ({"RANK": "5"}, Place(0, 1)),
    ],
)
def test_a_rank_is_found_in_what_launchers_set(variables: dict[str, str], place: Place) -> None:
    assert Place.find(variables) == place


@pytest.mark.parametrize(("rank", "size"), [("2", "2"), ("-1", "2"), ("one", "2"), ("0", "x")])
def test_a_rank_that_is_none_is_named(rank: str, size: str) -> None:
    with pytest.raises(ConfigError, match=f"RANK: '{rank}' is no rank of WORLD_SIZE='{size}'"):
        Place.find({"RANK": rank, "WORLD_SIZE": size})


DIES = """
import os, sys, time
from pathlib import Path
from trainyard_job.ranks.meeting import Meeting
from trainyard_job.ranks.place import Place
place = Place.find()
part = Meeting(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ["WHERE"]), place)
part.join(lambda: None)
if place.rank == int(os.environ["DYING"]):
    os.kill(os.getpid(), 9)
began = time.monotonic()
try:
    part.agree("a save", None, lambda _: None)
except Exception as error:
    print(error)
"""


@pytest.mark.real
@pytest.mark.parametrize("dying", [0, 1])
def test_a_rank_that_is_killed_fails_the_call_long_before_the_limit(
    tmp_path: Path, dying: int
) -> None:
    ended = job_ranks.finished(tmp_path, DIES, 3, WHERE=str(tmp_path / "meeting"), DYING=str(dying))
    assert [rank.code for rank in ended] == [-9 if rank == dying else 0 for rank in range(3)], (
        job_ranks.told(ended)
    )
    for rank in {0, 1, 2} - {dying}:
        assert ended[rank].out == f"rank {dying} ended before it came to a save\n"
    assert os.listdir(tmp_path / "meeting")
