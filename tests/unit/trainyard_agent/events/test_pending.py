"""Events that wait are sent in order, within the limits of a request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trainyard_agent.events.test_outbox import rows

from trainyard_agent.events.pending import BATCH_BYTES, BATCH_ENTRIES, Row, backoff, choose


@given(rows, st.floats(0, 100))
def test_a_batch_keeps_the_limits_and_the_order(found: list[Row], now: float) -> None:
    batch = choose(found, now)
    assert len(batch) <= BATCH_ENTRIES
    assert len(batch) <= 1 or sum(row.size for row in batch) <= BATCH_BYTES
    assert all(row.due <= now for row in batch)
    assert batch == [row for row in found if row in batch]
    assert bool(batch) or all(row.due > now or row.run for row in found)


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_the_backoff_is_bounded(tries: int, chance: float) -> None:
    assert 0 < backoff(tries, chance) <= 30
