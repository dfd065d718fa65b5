"""Runs the checks, each at its own pace in a thread.

A verdict is believed only after it was seen often enough in a row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainyard_agent.checks import Check, Node, Severity, Verdict

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Believed:
    """A check's debounced state.

    It holds the verdict that is believed, and how often in a row another one was seen.
    """

    verdict: Verdict
    candidate: Severity | None = None
    seen: int = 0


def debounce(believed: Believed, verdict: Verdict, confirm: int) -> Believed:
    """The next state.

    A verdict of the same severity renews the detail at once; another must come `confirm` times in a
    row.
    """
    if verdict.severity == believed.verdict.severity:
        return Believed(verdict)
    seen = believed.seen + 1 if believed.candidate == verdict.severity else 1
    if seen >= confirm:
        return Believed(verdict)
    return replace(believed, candidate=verdict.severity, seen=seen)


class Health:
    """What this node believes of itself. `run_due` blocks and belongs in a thread."""

    def __init__(self, node: Node, checks: Sequence[Check]) -> None:
        self._node = node
        self._checks = checks
        self._due = {check.name: time.monotonic() for check in checks}
        self._believed: dict[str, Believed] = {}

    def next_due(self) -> float:
        """Seconds until a check is due."""
        return max(0.0, min(self._due.values(), default=float("inf")) - time.monotonic())

    def run_due(self) -> None:
        for check in self._checks:
            if self._due[check.name] <= time.monotonic():
                self._due[check.name] = time.monotonic() + check.every_seconds
                self._run(check)

    def _run(self, check: Check) -> None:
        # Only here the agent survives any error: a check that fails must not silence the node.
        try:
            reading = check.read(self._node)
            if reading is None:
                return
            verdict = check.judge(reading)
        except Exception as error:  # noqa: BLE001
            log.warning(
                "the check %s cannot be made: %s: %s", check.name, type(error).__name__, error
            )
            return
        before = self._believed.get(check.name, Believed(Verdict("healthy", "")))
        after = debounce(before, verdict, check.confirm)
        self._believed[check.name] = after
        if after.verdict.severity != before.verdict.severity:
            log.warning(
                "check %s: %s: %s", check.name, after.verdict.severity, after.verdict.detail
            )

    def verdicts(self) -> dict[str, list[str]]:
        """name -> [severity, detail] of everything believed, as it travels to the controller."""
        return {
            name: [item.verdict.severity, item.verdict.detail[:500]]
            for name, item in self._believed.items()
        }
