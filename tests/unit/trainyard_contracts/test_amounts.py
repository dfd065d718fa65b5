"""Amounts in words."""

from __future__ import annotations

import pytest

from trainyard_contracts.amounts import counted, size


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10**9, "953.7 MiB"),
        (2**40, "1.0 TiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_a_size_is_said_in_the_binary_unit_that_keeps_it_short(count: int, words: str) -> None:
    assert size(count) == words


def test_one_thing_has_no_plural() -> None:
    assert [counted(number, "object") for number in (0, 1, 2)] == [
        "0 objects",
        "1 object",
        "2 objects",
    ]
