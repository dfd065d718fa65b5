"""The bar: bytes of many transfers at once, and nothing where nobody looks."""

from __future__ import annotations

import pytest

from trainyard_cli.screen.progress import bar
from trainyard_sdk.progress import Counted


@pytest.fixture
def told() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def counted(told: list[tuple[int, int]]) -> Counted:
    return Counted(lambda done, total: told.append((done, total)))


def test_a_transfer_that_begins_again_takes_back_what_it_had(
    counted: Counted, told: list[tuple[int, int]]
) -> None:
    counted.expect(10)
    counted.expect(5)
    counted.at("one", 7)
    counted.at("two", 5)
    counted.at("one", 0)
    assert told == [(7, 15), (12, 15), (5, 15)]


def test_what_remains_comes_after_what_is_done(
    counted: Counted, told: list[tuple[int, int]]
) -> None:
    counted.remain(10)
    counted.at("one", 4)
    counted.remain(20)
    counted.at("two", 1)
    assert told == [(4, 10), (5, 24)]


def test_without_a_terminal_no_bar_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("Uploading") as move:
        move(1, 2)
    assert capsys.readouterr() == ("", "")
