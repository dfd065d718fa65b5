"""Programs are compared round by round, and told by the median of the rounds' ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench import llm_speed
from bench.llm_speed import BATCH, REFERENCE, SEQUENCE, measure


class Turns:
    """A job whose steps take so long in each turn; the first is the one that warms up."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *_: object) -> None:
        assert not self._seconds, "every turn was taken"

    def turn(self, steps: int) -> list[float]:
        return [self._seconds.pop(0)] * steps


def test_a_host_that_slows_down_in_one_round_changes_no_ratio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = {REFERENCE: Turns(9.0, 2.0, 20.0, 2.0), "eager": Turns(9.0, 1.0, 10.0, 1.0)}
    monkeypatch.setattr(llm_speed, "make_data", lambda place, tokens, vocabulary: Path(place))
    monkeypatch.setattr(llm_speed, "job", lambda name, *_: jobs[name])
    found: dict[str, Any] = measure({"vocab_size": 8}, 3, ["eager"])
    assert found["ratios"] == {"eager": [2.0, 2.0, 2.0]}
    assert found["timesTransformers"] == {"eager": 2.0}
    assert found["tokensPerSecond"]["eager"] == BATCH * SEQUENCE
