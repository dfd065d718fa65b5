"""What a run's record keeps of its past, so that it fits an item however long the run and however
many its nodes.

The timeline keeps all of it; the record keeps what decisions need and what people look at first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from trainyard.domain.records import Attempt, Incident, Run

#: As many as a life may have (recovery.maxAttempts), so that budgets count right.
MOST_ATTEMPTS = 1000
MOST_INCIDENTS = 200
MOST_HANDLED = 500
#: Names of nodes that all attempts but the newest keep together; the newest keeps all its own.
MOST_NAMES = 2000
#: Attempts and incidents that keep their reason in words.
MOST_REASONS = 50


def bounded(run: Run, open_keys: Collection[str] = (), lost: Collection[str] = ()) -> Run:
    """The run with a past that fits. Doing it twice changes nothing.

    `open_keys` and `lost` name facts and nodes that a decision still meets: their handling is never
    forgotten.
    """
    attempts, former = _attempts(run)
    update = {
        "attempts": attempts,
        "former_nodes": sorted({*run.former_nodes, *former}),
        "incidents": _incidents(run.incidents),
        "handled_facts": _handled(run.handled_facts, set(open_keys), lost),
    }
    return run.changed(
        **{name: value for name, value in update.items() if value != getattr(run, name)}
    )


def _attempts(run: Run) -> tuple[list[Attempt], set[str]]:
    """Attempts with the lists that fit, and the names of nodes that no attempt tells any more."""
    kept: list[Attempt] = []
    former: set[str] = set()
    room = MOST_NAMES
    for age, attempt in enumerate(reversed(run.attempts)):
        names = len(attempt.nodes) + len(attempt.exclude) + len(attempt.down) if age else 0
        update: dict[str, Any] = {"reason": ""} if age >= MOST_REASONS and attempt.reason else {}
        if names > room or age >= MOST_ATTEMPTS:
            former.update(attempt.nodes)
            update |= {"nodes": [], "exclude": [], "down": []}
        else:
            room -= names
        kept.append(attempt.changed(**update) if update else attempt)
    return kept[:MOST_ATTEMPTS][::-1], former


def _incidents(incidents: list[Incident]) -> list[Incident]:
    """Open ones are among the newest: a first step closes them all."""
    old, new = incidents[-MOST_INCIDENTS:-MOST_REASONS], incidents[-MOST_REASONS:]
    return [
        incident.changed(reason="", actions=[]) if incident.reason else incident for incident in old
    ] + new


def _handled(keys: list[str], open_keys: set[str], lost: Iterable[str]) -> list[str]:
    if len(keys) <= MOST_HANDLED:
        return keys
    ends = tuple(f"-{node}" for node in lost)
    old, new = keys[:-MOST_HANDLED], keys[-MOST_HANDLED:]
    return [key for key in old if key in open_keys or (ends and key.endswith(ends))] + new
