"""What the attempts say of a node: whether training goes on there, and what may be left."""

from __future__ import annotations

import heapq
from collections.abc import Collection

from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.nodes.activity import Activity

#: A node that comes back is asked to end what is left of so many of the runs that used it, the
#: newest.
LEFTOVER_RUNS = 20
#: An ended attempt still explains for this long why its nodes fell silent.
RECENT_SECONDS = 60.0
# After a hint that a job ended, active jobs are looked at closely for so long.
HINT_SECONDS = 5.0


def activity_on(node: str, attempts: Collection[Attempt], now: float) -> Activity | None:
    """Of the attempts that use the node, or did a moment ago, the one that says most about it.

    Attempts' numbers count within a run.
    """
    using = [
        a
        for a in attempts
        if node in a.nodes and (a.active or (a.ended_at or -1e9) > now - RECENT_SECONDS)
    ]
    if not using:
        return None
    last = max(using, key=lambda a: (a.active, not a.job_ended, a.ended_at or 0.0, a.number))
    return Activity(
        last.run_id,
        last.number,
        last.job_ended,
        last.stepped_at,
        last.step_seconds,
        pause=usual_pause(last.pauses),
        read_at=last.read_at,
    )


def usual_pause(pauses: Collection[float]) -> float:
    """The longest but one: a single one may have been an evaluation."""
    return min(heapq.nlargest(2, pauses)) if len(pauses) > 1 else 0.0


def leftovers_on(node: str, attempts: Collection[Attempt]) -> list[tuple[str, int, list[str]]]:
    """What the node may still run of attempts that are over, as activity.Jobs says.

    It leaves out the newest attempt of a run while that goes on, and a job whose number another run
    has by now.
    """
    newest: dict[str, int] = {}
    for attempt in attempts:
        newest[attempt.run_id] = max(attempt.number, newest.get(attempt.run_id, 0))
    over: dict[str, list[Attempt]] = {}
    alive = {""}
    for attempt in attempts:
        if attempt.active and attempt.number == newest[attempt.run_id]:
            alive.add(attempt.job_id)
        elif node in attempt.nodes:
            over.setdefault(attempt.run_id, []).append(attempt)
    newest_runs = sorted(over, reverse=True)[:LEFTOVER_RUNS]  # their ids begin with the time
    return [
        (
            run,
            max(a.number for a in over[run]),
            [a.job_id for a in over[run] if a.job_id not in alive],
        )
        for run in newest_runs
    ]
