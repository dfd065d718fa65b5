"""The end of a job on several nodes: who hosts the meeting leaves last."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from trainyard_trainers.launch import elastic

FINAL = "final"


class Hosted:
    """A node's connection to a store that is gone once its host has left."""

    def __init__(self, values: dict[str, str], changed: threading.Condition) -> None:
        self._values, self._changed = values, changed

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: set(keys) <= self._values.keys(), timeout.total_seconds()
            ):
                raise RuntimeError("timed out")


def test_the_host_of_the_last_meeting_waits_until_the_others_have_left() -> None:
    store, left = Hosted({}, threading.Condition()), threading.Event()

    def host() -> None:
        elastic.orderly(lambda *_, **__: None, 0, FINAL)(
            store=store, world_size=2, key_prefix=FINAL
        )
        left.set()

    threading.Thread(target=host, daemon=True).start()
    asked = threading.Event()

    def slow(*_: Any, **__: Any) -> None:
        assert not left.is_set()
        asked.set()

    elastic.orderly(slow, 1, FINAL)(store=store, world_size=2, key_prefix=FINAL)
    assert asked.is_set()
    assert left.wait(60), "told, it leaves"


@pytest.mark.parametrize(("key", "nodes"), [("another", 2), (FINAL, 1)])
def test_nobody_waits_at_other_meetings_or_alone(key: str, nodes: int) -> None:
    met = []
    elastic.orderly(lambda *_, **__: met.append(key), 0, FINAL)(
        store=None, world_size=nodes, key_prefix=key
    )
    assert met == [key]


def test_a_store_that_is_gone_at_the_end_is_no_error() -> None:
    class Gone:
        def set(self, key: str, value: str) -> None:
            raise RuntimeError("Broken pipe")

    elastic.orderly(lambda *_, **__: None, 1, FINAL)(store=Gone(), world_size=2, key_prefix=FINAL)
