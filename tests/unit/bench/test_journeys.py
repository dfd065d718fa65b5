"""The files on a way are counted once each, and a turn back is a call into one that waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from bench import journeys
from bench.journeys import Journey, backs
from tests.support.repository import ROOT


@pytest.fixture
def journey(monkeypatch: pytest.MonkeyPatch) -> Journey:
    """One whose frames are names of files."""
    monkeypatch.setattr(journeys, "product_file", lambda frame: frame.file)
    return Journey()


def calls(journey: Journey, file: str, *inside: Callable[[], None]) -> None:
    frame = SimpleNamespace(file=file)
    journey.note(frame, "call", None)  # type: ignore[arg-type]
    for call in inside:
        call()
    journey.note(frame, "return", None)  # type: ignore[arg-type]


def test_a_file_counts_once_in_the_order_of_its_first_call(journey: Journey) -> None:
    for _ in range(2):
        calls(journey, "a", lambda: calls(journey, "b"), lambda: calls(journey, "c"))
    assert (journey.files, journey.turns) == (["a", "b", "c"], set())


def test_a_call_into_a_file_that_waits_is_a_turn_back(journey: Journey) -> None:
    calls(journey, "a", lambda: calls(journey, "b", lambda: calls(journey, "a")))
    assert backs(journey.turns) == ["b -> a"]


def test_what_is_not_the_product_is_passed_through(journey: Journey) -> None:
    calls(journey, "a", lambda: calls(journey, "", lambda: calls(journey, "a")))
    assert (journey.files, journey.turns) == (["a"], set())


def test_the_ways_are_as_long_as_the_decision_about_rooms_says() -> None:
    """Another file on a way is a reader's; the page and its figures change with it."""
    page = (ROOT / "docs/adr/0027-rooms.md").read_text()
    told = re.search(r"through the code: (\d+), (\d+)\nand (\d+) files, with one turn back", page)
    assert told is not None
    found = journeys.journeys()
    assert [len(way.files) for way in found.values()] == [int(number) for number in told.groups()]
    # A record is read, and in it the spec of its cluster, by the class of its backend.
    contracts = "layers/contracts/trainyard_contracts"
    specs = [f"{contracts}/by_backend.py -> {contracts}/base.py"]
    assert [backs(way.turns) for way in found.values()] == [specs, specs, []]
