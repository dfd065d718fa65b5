"""The benchmarks' figures: medians and percentiles of few samples."""

from __future__ import annotations

from bench.figures import median, percentile


def test_the_median_of_two_is_their_mean() -> None:
    assert median([1, 3]) == 2
    assert median([5, 1, 3]) == 3
    assert median([]) is None


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile([7.0], 99) == 7
    assert percentile([], 50) is None
