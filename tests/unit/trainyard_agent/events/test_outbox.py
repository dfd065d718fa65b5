"""The outbox: nothing is lost, nothing is sent under a new id, samples give way first."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.support.agent import config, heartbeat, started
from tests.support.outbox import KEY, Bus, add, sender, waiting

from trainyard_agent.events.pending import BATCH_ENTRIES, Row
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_contracts import signatures
from trainyard_contracts.node_events import NodeLost, NodeReturned
from trainyard_contracts.node_evidence import NodeEvidence


def test_what_the_bus_took_is_forgotten(store: Store) -> None:
    bus, event = Bus(), started()
    add(store, event)
    add(store, event)
    assert sender(store, bus).send_once(store) == 1
    assert json.loads(bus.taken[0]["Detail"])["id"] == event.id
    assert (bus.taken[0]["DetailType"], bus.taken[0]["Source"]) == (
        "AttemptStarted",
        "trainyard.agent",
    )
    assert waiting(store) == []


def test_a_clock_that_is_set_back_dates_no_loss_before_the_nodes_last_return(
    store: Store, tmp_path: Path
) -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
    times = iter(
        [noon, noon - timedelta(hours=1), noon - timedelta(minutes=59), noon + timedelta(seconds=1)]
    )
    reporter = Reporter(config(tmp_path), store, clock=lambda: next(times))
    returned = reporter.make(
        NodeReturned, about=NodeEvidence(node="ip-1", agent="linked", scheduler="up")
    )
    lost = [
        reporter.make(NodeLost, about=NodeEvidence(node="ip-1", agent="silent", scheduler="down"))
        for _ in range(3)
    ]
    assert noon == returned.at < lost[0].at < lost[1].at < noon + timedelta(seconds=1) == lost[2].at


def test_an_unreachable_bus_costs_nothing(store: Store) -> None:
    bus = Bus()
    bus.answers = [Unreachable("down")]
    add(store, started())
    with pytest.raises(Unreachable):
        sender(store, bus).send_once(store)
    assert sender(store, bus).send_once(store) == 1
    assert waiting(store) == []


def test_a_refused_entry_holds_back_later_events_of_its_run_only(store: Store) -> None:
    bus, one, other = Bus(), started(), started("run-01j0000000000000000000000b")
    bus.answers = [[{"ErrorCode": "ThrottlingException"}, {"EventId": "x"}]]
    add(store, one, other)
    sender(store, bus).send_once(store)
    later = started(attempt=2)
    add(store, later)
    assert sender(store, bus).send_once(store) == 0, "the later event waits for the earlier one"
    store.connection.execute("UPDATE outbox SET due = 0")
    assert sender(store, bus).send_once(store) == 2
    assert [json.loads(entry["Detail"])["id"] for entry in bus.taken] == [
        other.id,
        one.id,
        later.id,
    ]


def test_one_bad_entry_does_not_spoil_its_batch(store: Store) -> None:
    bus = Bus()
    bus.answers = [Refused(400, "too large"), Refused(400, "too large"), None]
    add(store, started(), started("run-01j0000000000000000000000b"))
    sender(store, bus).send_once(store)
    assert len(bus.taken) == 1
    assert len(waiting(store)) == 1


def test_samples_go_last_and_the_oldest_are_dropped_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "o", sample_cap_bytes=5000)
    beats = [heartbeat() for _ in range(20)]
    add(store, *beats, sample=True)
    add(store, started())
    store.trim_samples()
    kept = [
        row
        for (row,) in store.connection.execute(
            "SELECT id FROM outbox WHERE sample = 1 ORDER BY seq"
        )
    ]
    assert kept == [beat.id for beat in beats[-len(kept) :]]
    assert 0 < len(kept) < 20
    assert int(store.flag("dropped-samples") or 0) == 20 - len(kept)
    bus = Bus()
    sender(store, bus).send_once(store)
    assert bus.taken[0]["DetailType"] == "AttemptStarted"


def test_what_the_bus_took_and_the_disk_cannot_forget_is_not_sent_again_nor_in_the_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = Bus()
    sending = sender(store, bus)

    def refuse(_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    add(store, *[started() for _ in range(BATCH_ENTRIES + 1)])
    with monkeypatch.context() as full:
        full.setattr(store, "apply_now", refuse)
        for _ in range(3):
            with pytest.raises(sqlite3.OperationalError):
                sending.send_once(store)
    assert len(bus.taken) == BATCH_ENTRIES + 1
    assert sending.send_once(store) == 0
    assert waiting(store) == []


def test_a_sender_ends_when_it_is_told_to(store: Store) -> None:
    sending = sender(store, Bus())
    sending.start()
    sending.stop()
    sending.join(120)
    assert not sending.is_alive()


rows = st.lists(
    st.builds(
        Row,
        seq=st.integers(0, 10**6),
        kind=st.just("K"),
        run=st.sampled_from(["", "a", "b", "c"]),
        body=st.just("{}"),
        size=st.integers(1, 300_000),
        tries=st.integers(0, 20),
        due=st.floats(0, 100),
    ),
    max_size=15,
    unique_by=lambda row: row.seq,
).map(lambda found: sorted(found, key=lambda row: row.seq))


def test_what_is_sent_is_signed_with_the_clusters_key_whatever_wrote_its_numbers(
    store: Store,
) -> None:
    body = '{"id":"x","step":3.0,"loss":0.1,"tiny":1e-7,"nodes":["\u00e9"],"none":null}'
    detail = json.loads(signatures.signed("AttemptStepped", body, KEY))
    assert {name: value for name, value in detail.items() if name != "signature"} == json.loads(
        body
    )
    rewritten = json.loads(json.dumps(detail).replace("3.0", "3").replace("1e-07", "0.0000001"))
    assert signatures.is_signed("AttemptStepped", rewritten, KEY)
    assert not signatures.is_signed("AttemptEnded", detail, KEY)
    assert not signatures.is_signed("AttemptStepped", detail, b"another key of the same length")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert not signatures.is_signed("AttemptStepped", {"deep": deep, "signature": "x"}, KEY)
    bus = Bus()
    add(store, started())
    assert sender(store, bus).send_once(store) == 1
    assert signatures.is_signed("AttemptStarted", json.loads(bus.taken[0]["Detail"]), KEY)
