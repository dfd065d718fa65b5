"""How fast a run is accepted: percentiles of the requests after those that warm up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from bench import api


class Cloud:
    """Each submission takes as long as its number says; a run is over at the second look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.api, self.now, self.submitted, self.looks = self, 0.0, 0, 0
        clock = SimpleNamespace(
            monotonic=lambda: self.now, perf_counter=lambda: self.now, sleep=lambda _: None
        )
        monkeypatch.setattr(api, "time", clock)

    def submit_run(self, spec: dict[str, Any]) -> dict[str, Any]:
        self.submitted += 1
        self.now += self.submitted
        return {"id": spec["name"]}

    def cancel_run(self, run_id: str) -> None:
        self.looks = 0

    def run(self, run_id: str) -> dict[str, Any]:
        self.looks += 1
        return {"status": "Cancelled" if self.looks > 1 else "Cancelling"}


def test_the_first_requests_only_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = api.measure(Cloud(monkeypatch), "c", 3, warm_up=2, deadline=100.0)  # type: ignore[arg-type]
    assert (found["seconds"], found["p50Seconds"], found["p99Seconds"]) == ([3, 4, 5], 4, 5)


def test_no_request_is_begun_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    found = api.measure(Cloud(monkeypatch), "c", 9, warm_up=0, deadline=5.0)  # type: ignore[arg-type]
    assert found["samples"] == 3
