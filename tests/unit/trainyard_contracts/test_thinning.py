"""A series that is thinned out keeps its shape, its extremes, its first and its last."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trainyard_contracts.thinning import Thinned


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=400),
    st.integers(min_value=4, max_value=60),
)
def test_extremes_first_and_last_stay_whatever_the_values(values: list[float], most: int) -> None:
    kept = Thinned[tuple[int, float]](most)
    for number, value in enumerate(values):
        kept.add(value, (number, value))
    items = kept.items()
    assert len(items) <= most
    assert items == sorted(set(items), key=lambda item: item[0])
    assert (items[0], items[-1]) == ((0, values[0]), (len(values) - 1, values[-1]))
    assert min(values) in [value for _, value in items]
    assert max(values) in [value for _, value in items]
    assert kept.seen == len(values)


def test_nothing_is_left_out_before_there_are_too_many() -> None:
    kept = Thinned[int](2000)
    for number in range(1998):
        kept.add(float(number % 7), number)
    assert kept.items() == list(range(1998))


def test_many_are_thinned_evenly() -> None:
    kept = Thinned[int](2000)
    for number in range(1_000_000):
        kept.add(float(number), number)
    items = kept.items()
    assert 900 < len(items) <= 2000
    gaps = [after - before for before, after in pairwise(items)]
    assert max(gaps) <= 2 * 1_000_000 / 900, "the beginning has as many points as the end"


def test_a_lower_limit_holds_for_what_is_there_already() -> None:
    kept = Thinned[int](2000)
    for number in range(1000):
        kept.add(float(number == 500), number)
    kept.limit(20)
    assert len(kept.items()) <= 20
    assert {0, 500, 999} <= set(kept.items())
    kept.limit(1000)
    assert len(kept.items()) <= 20
    kept.clear()
    assert kept.items() == []
