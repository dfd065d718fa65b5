"""When a check's verdict is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.agent import config

from trainyard_agent.checks import (
    Check,
    Node,
    Severity,
    Verdict,
)
from trainyard_agent.host.accelerators import Accelerators
from trainyard_agent.nodes.health import Believed, Health, debounce


def test_a_single_bad_reading_is_not_believed() -> None:
    healthy, bad = Believed(Verdict("healthy", "")), Verdict("error", "bad")
    once = debounce(healthy, bad, 2)
    assert once.verdict.severity == "healthy"
    assert debounce(once, bad, 2).verdict.severity == "error"
    assert debounce(once, Verdict("healthy", ""), 2) == healthy


@given(st.lists(st.sampled_from(["healthy", "warning", "error"]), max_size=30), st.integers(1, 5))
def test_a_change_is_believed_only_after_its_confirmations(
    seen: list[Severity], confirm: int
) -> None:
    state = Believed(Verdict("healthy", ""))
    for position, severity in enumerate(seen):
        after = debounce(state, Verdict(severity, ""), confirm)
        if after.verdict.severity != state.verdict.severity:
            assert set(seen[max(0, position - confirm + 1) : position + 1]) == {severity}
        state = after


def test_a_check_that_breaks_does_not_silence_the_others(tmp_path: Path) -> None:
    def broken(_: Node) -> Any:
        raise OSError("gone")

    checks = [
        Check("broken", 1, 1, broken, lambda _: Verdict("healthy", "")),
        Check("sound", 1, 1, lambda _: 1, lambda _: Verdict("error", "really bad")),
    ]
    health = Health(Node(config(tmp_path), Accelerators()), checks)
    health.run_due()
    assert health.verdicts() == {"sound": ["error", "really bad"]}
