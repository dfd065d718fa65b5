"""Fields of protobuf messages, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_agent.jobs.protobuf import fields


def test_each_kind_of_field_is_read() -> None:
    body = b"\x08\x96\x01" + b"\x12\x02hi" + b"\x19" + b"12345678" + b"\x25" + b"1234"
    assert list(fields(body)) == [(1, 150), (2, b"hi"), (3, b"12345678"), (4, b"1234")]


@pytest.mark.parametrize("body", [b"\x0b", b"\x12\x05hi", b"\x08", b"\x08" + b"\xff" * 12, b"\x25"])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        list(fields(body))


@given(st.binary(max_size=100))
def test_no_other_error_comes(body: bytes) -> None:
    try:
        assert all(number >= 0 for number, _ in fields(body))
    except (ValueError, IndexError):
        pass
