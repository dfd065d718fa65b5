"""A missing file lasts if all ranks miss one; what one rank misses, another may still write."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trainyard_trainers.common import all_ranks as ranks
from trainyard_trainers.common import failure
from trainyard_trainers.common.all_ranks import all_ranks


@pytest.fixture
def second_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINYARD_ATTEMPT_DIR", str(tmp_path))
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    return tmp_path


def recorded(directory: Path) -> failure.Told:
    failure.record_exception(raised())
    return failure.read_error_file(directory / "error.json")


def raised() -> FileNotFoundError:
    try:
        open("/no/such/data")  # noqa: SIM115 - it opens nothing
    except FileNotFoundError as error:
        return error
    raise AssertionError("it is there")


def other_rank(directory: Path, mark: str) -> None:
    (directory / mark).mkdir(exist_ok=True)
    (directory / mark / "0").touch()


def test_what_all_ranks_miss_lasts(second_of_two: Path) -> None:
    other_rank(second_of_two, "missing")
    other_rank(second_of_two, "missing-told")
    told = recorded(second_of_two)
    assert (told.exception, told.lasting) == ("FileNotFoundError", "environment")


def test_what_one_rank_misses_may_pass(
    second_of_two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks.all_ranks, "__defaults__", (0.0,))
    told = recorded(second_of_two)
    assert (told.exception, told.lasting) == ("FileNotFoundError", None)


def test_an_error_is_there_to_be_read_while_the_others_are_waited_for(second_of_two: Path) -> None:
    told: list[failure.Told] = []
    thread = threading.Thread(target=lambda: told.append(recorded(second_of_two)))
    thread.start()
    while not (second_of_two / "missing/1").exists():
        assert thread.is_alive()
    first = failure.read_error_file(second_of_two / "error.json")
    other_rank(second_of_two, "missing")
    other_rank(second_of_two, "missing-told")
    thread.join(60)
    assert (first.exception, first.lasting) == ("FileNotFoundError", None)
    assert [one.lasting for one in told] == ["environment"]


def test_a_program_without_ranks_is_alone_on_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert all_ranks("missing")


@pytest.mark.parametrize("rank", ["x", "0"])
def test_marks_that_cannot_be_left_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("TRAINYARD_ATTEMPT_DIR", str(tmp_path / "none"))
    assert not all_ranks("missing")
