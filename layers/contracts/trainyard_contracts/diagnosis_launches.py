"""The cause of an end by what the launchers of its nodes report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .diagnosis_sources import Job, Launch, names_cause
from .diagnosis_verdict import Diagnosis, Kind
from .diagnosis_words import memory_in, one_line

#: Linux, <signal.h>.
SIGKILL = 9
# The launchers of a job start within moments.
CLOCKS_DIFFER_SECONDS = 60.0


def of_launches(launches: Sequence[Launch], code: int | None, job: Job | None) -> Diagnosis | None:
    """The first launcher that reported a cause; else one that was killed before it could report."""
    causes = [item for item in launches if names_cause(item)]
    if causes:
        # Lack of memory explains the other killed processes, too: the kernel may kill several
        # processes of a node.
        first = min(causes, key=lambda item: (item.kind != "out-of-memory", moment(item, launches)))
        kind = _kind(first)
        return Diagnosis(
            "failed",
            first.exit_code,
            first.signal,
            one_line(first.error),
            kind,
            first.node,
            exception=first.exception,
            lasting=kind == "python-error" and _lasts(first, launches, job),
            memory=_memory(first) if kind == "out-of-memory" else None,
            traceback=first.traceback or "",
        )
    vanished = [item for item in launches if item.ended is None]
    if vanished and len(vanished) < len(launches):
        return Diagnosis("failed", code, SIGKILL, None, "signal", vanished[0].node)
    plain = [item for item in launches if item.ended is not None and item.kind == "exit"]
    if plain:
        first = min(plain, key=lambda item: moment(item, launches))
        return Diagnosis(
            "failed",
            first.exit_code,
            None,
            f"the program exited with {first.exit_code}",
            "unknown",
            first.node,
        )
    return None


def moment(launch: Launch, launches: Sequence[Launch]) -> float:
    """The number by which ends are ordered: the time by the node's clock.

    If the clocks do not agree on when the job started, it is how long the launcher ran.
    """
    starts = [item.started for item in launches if item.started is not None]
    if len(starts) == len(launches) and max(starts) - min(starts) > CLOCKS_DIFFER_SECONDS:
        return (launch.ended or 0.0) - (launch.started or 0.0)
    return launch.ended or 0.0


def _lasts(first: Launch, launches: Sequence[Launch], job: Job | None) -> bool:
    """Whether another attempt would fail in the same way: the program is wrong; or what it misses
    is missing on every node of the job, so that it is not one node that lacks it.
    """
    if first.lasting == "program":
        return True
    same = {one.node for one in launches if one.lasting and one.exception == first.exception}
    others = {one.node for one in launches}.union(job.nodes if job else ())
    return first.lasting == "environment" and others <= same


def _memory(launch: Launch) -> Literal["host", "device"] | None:
    if launch.memory in ("host", "device"):
        return "device" if launch.memory == "device" else "host"
    return memory_in(launch.error or "") or ("host" if launch.kind == "out-of-memory" else None)


def _kind(launch: Launch) -> Kind:
    if launch.kind == "python-error":
        return "out-of-memory" if memory_in(launch.error or "") else "python-error"
    return (
        "signal"
        if launch.kind == "signal"
        else "out-of-memory"
        if launch.kind == "out-of-memory"
        else "checkpoint"
    )
