"""Events of containers: what the control plane reads, signed, in order, in nobody's way."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import eventually
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import events
from trainyard_contracts.events import parse_agent_event
from trainyard_contracts.signatures import is_signed

KEY = b"0f" * 32
pytestmark = pytest.mark.real  # threads, which wait for one another


class Bus:
    """Takes what `fails` lets through."""

    def __init__(self, fails: int = 0, refuses: int = 0) -> None:
        self.fails, self.refuses = fails, refuses
        self.entries: list[dict[str, str]] = []

    def put(self, entries: list[dict[str, str]]) -> list[dict[str, Any]]:
        if self.fails:
            self.fails -= 1
            raise ConnectionError("no way to the bus")
        if self.refuses:
            self.refuses -= 1
            self.entries += entries[1:]
            return [{"ErrorCode": "ThrottlingException"}, *({} for _ in entries[1:])]
        self.entries += entries
        return [{} for _ in entries]

    @property
    def steps(self) -> list[int]:
        return [json.loads(entry["Detail"])["step"] for entry in self.entries]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_FIRST_PAUSE", 0.01)


def make(tmp_path: Path, bus: Bus) -> events.Events:
    return events.Events(surroundings(tmp_path), KEY, bus.put)


def test_an_event_is_one_that_the_control_plane_reads_and_believes(tmp_path: Path) -> None:
    bus = Bus()
    sender = make(tmp_path, bus)
    at = events.moment(datetime(2026, 11, 24, tzinfo=timezone.utc))
    sender.of_attempt("AttemptStepped", step=3, resumedFrom=None, steppedAt=at)
    assert sender.flush(10)
    [entry] = bus.entries
    detail = json.loads(entry["Detail"])
    assert (entry["Source"], entry["EventBusName"]) == ("trainyard.agent", "facts")
    assert is_signed("AttemptStepped", detail, KEY)
    event = parse_agent_event("AttemptStepped", detail)
    assert (event.cluster_name, event.node) == ("c", "algo-2")


def test_what_the_bus_does_not_take_is_sent_again_in_its_order(tmp_path: Path) -> None:
    bus = Bus(fails=2)
    sender = make(tmp_path, bus)
    for step in range(25):
        sender.of_attempt("AttemptStepped", step=step)
    assert sender.flush(10)
    assert bus.steps == list(range(25))


def test_one_entry_that_is_refused_does_not_take_the_others_along(tmp_path: Path) -> None:
    bus = Bus(refuses=1)
    sender = make(tmp_path, bus)
    for step in range(3):
        sender.of_attempt("AttemptStepped", step=step)
    assert sender.flush(10)
    assert sorted(bus.steps) == [0, 1, 2]


def test_later_events_have_later_times_and_ids_of_their_own(tmp_path: Path) -> None:
    bus = Bus()
    sender = make(tmp_path, bus)
    for step in range(50):
        sender.of_attempt("AttemptStepped", step=step)
    assert sender.flush(10)
    details = [json.loads(entry["Detail"]) for entry in bus.entries]
    times = [detail["at"] for detail in sorted(details, key=lambda one: one["step"])]
    assert times == sorted(set(times))
    assert len({detail["id"] for detail in details}) == 50


def test_a_bus_that_never_answers_ends_the_wait_and_nothing_else(tmp_path: Path) -> None:
    bus = Bus(fails=10**9)
    sender = make(tmp_path, bus)
    sender.of_attempt("AttemptStepped", step=1)
    assert not sender.flush(0.1)
    bus.fails = 0
    eventually("it is sent after all", lambda: bus.steps == [1])
