"""A part of a file is a stream of its own."""

from __future__ import annotations

from pathlib import Path

from tests.unit.trainyard_agent.host.test_s3 import file

from trainyard_agent.host.slices import Slice


def test_a_slice_tells_how_much_is_read(tmp_path: Path) -> None:
    told: list[int] = []
    with file(tmp_path, b"0123456789").open("rb") as stream:
        assert Slice(stream, 2, 5, told.append).read(3) == b"234"
    assert told == [3]
