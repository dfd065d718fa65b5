"""The agent's file of events: what it keeps on a disk that takes nothing, and when damaged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.support.agent import RUN, heartbeat, started
from tests.support.outbox import Bus, add, sender, waiting

from trainyard_agent.events import pending
from trainyard_agent.events.damage import set_damaged_aside
from trainyard_agent.events.store import RESERVE_BYTES, Store


def test_events_survive_a_restart_under_the_same_id(tmp_path: Path) -> None:
    first, event = Store(tmp_path / "o"), started()
    add(first, event)
    first.close()
    second, bus = Store(tmp_path / "o"), Bus()
    sender(second, bus).send_once(second)
    assert json.loads(bus.taken[0]["Detail"])["id"] == event.id


@pytest.fixture
def no_own_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the room inside the file were used up."""
    monkeypatch.setattr("trainyard_agent.events.store.OWN_BYTES", 0)


@pytest.mark.usefixtures("no_own_room")
def test_a_full_disk_drops_samples_and_keeps_changes_of_state(tmp_path: Path) -> None:
    store = Store(tmp_path / "o")
    add(store, *[heartbeat() for _ in range(400)], sample=True)
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(20):
        assert store.apply(lambda db: pending.add(db, started(nodes=["n" * 200] * 5)))
    kinds = waiting(store)
    assert kinds.count("AttemptStarted") == 20
    assert "ClusterHeartbeat" not in kinds
    assert (tmp_path / "reserve").exists(), "samples go before the reserve"
    assert store.dropped_samples == 400


@pytest.mark.usefixtures("no_own_room")
def test_what_does_not_fit_at_all_is_held_in_order_and_written_later(tmp_path: Path) -> None:
    store = Store(tmp_path / "o")
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    events = [started(nodes=["n" * 250] * 40) for _ in range(5)]
    done = [store.apply(lambda db, event=event: pending.add(db, event)) for event in events]
    assert not done[-1]
    assert not (tmp_path / "reserve").exists(), "the reserve was given up"
    store.apply_sample(lambda db: pending.add(db, heartbeat(), sample=True))
    assert store.dropped_samples == 1, "a sample never waits in memory"
    with pytest.raises(sqlite3.OperationalError):
        store.apply_now(lambda db: None)
    store.connection.execute("PRAGMA max_page_count = 100000")
    assert store.flush_held()
    assert [row for (row,) in store.connection.execute("SELECT id FROM outbox ORDER BY seq")] == [
        event.id for event in events
    ]


def test_room_inside_the_file_takes_changes_where_the_disk_takes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "o")
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    assert all(
        store.apply(lambda db: pending.add(db, started(nodes=["n" * 250] * 40))) for _ in range(10)
    )
    assert (tmp_path / "reserve").exists()


def test_the_reserve_is_had_again_once_there_is_room(tmp_path: Path) -> None:
    store = Store(tmp_path / "o")
    (tmp_path / "reserve").unlink()
    store.refill_reserve()
    assert (tmp_path / "reserve").stat().st_size == RESERVE_BYTES


def test_a_change_that_fails_takes_its_event_with_it(store: Store) -> None:
    def change(db: sqlite3.Connection) -> None:
        pending.add(db, started())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.apply(change)
    assert waiting(store) == []


def test_runs_are_known_to_the_outbox(store: Store) -> None:
    add(store, started())
    assert store.connection.execute("SELECT run FROM outbox").fetchone() == (RUN,)


@pytest.mark.parametrize("head", [b"no database at all" * 300, b"\0" * 64])
def test_a_damaged_file_is_set_aside_and_a_whole_one_is_not(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "outbox.sqlite"
    set_damaged_aside(path)
    Store(path).close()
    set_damaged_aside(path)
    assert [found.name for found in tmp_path.glob("*.damaged*")] == []
    with path.open("r+b") as file:
        file.write(head)
    with pytest.raises(sqlite3.DatabaseError):
        Store(path)
    set_damaged_aside(path)
    assert (tmp_path / "outbox.sqlite.damaged").exists()
    Store(path).close()
