"""A value of the right type that nobody can store is found wherever it stands."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import Field

from trainyard_contracts.base import Lenient
from trainyard_contracts.storable import mistakes


class Part(Lenient):
    text_of: str = ""
    rate: float | None = None


class Told(Lenient):
    run_id: str = ""
    at: datetime = datetime(2026, 11, 20, tzinfo=timezone.utc)
    count: int = 0
    parts: list[Part] = []
    sizes: dict[str, int] = {}
    signature: str = Field(default="", exclude=True)


def places(**fields: Any) -> list[tuple[Any, ...]]:
    return [mistake["loc"] for mistake in mistakes(Told(**fields))]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"count": 2**63}, ("count",)),
        ({"count": -(2**63)}, ("count",)),
        ({"at": datetime(3000, 1, 1, tzinfo=timezone.utc)}, ("at",)),
        ({"at": datetime(1899, 12, 31, tzinfo=timezone.utc)}, ("at",)),
        ({"parts": [Part(), Part(text_of="a\udfff")]}, ("parts", 1, "textOf")),
        ({"parts": [Part(rate=float("nan"))]}, ("parts", 0, "rate")),
        ({"sizes": {"\ud800": 1}}, ("sizes",)),
        ({"sizes": {"a": 10**400}}, ("sizes", "a")),
        ({"signature": "\ud800"}, ("signature",)),
        ({"run_id": "r" * 257}, ("runId",)),
    ],
)
def test_what_cannot_be_stored_is_named(fields: dict[str, Any], place: tuple[Any, ...]) -> None:
    assert places(**fields) == [place]


def test_what_can_be_stored_has_no_mistake() -> None:
    part = Part(text_of="\N{SNOWMAN}\N{GRINNING FACE}\x00" + "a" * 3000, rate=1e308)
    unset = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert places(count=2**63 - 1, at=unset, parts=[part], sizes={"": -1}, run_id="r" * 256) == []
