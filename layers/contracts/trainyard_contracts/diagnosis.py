"""Finds why an attempt ended, and takes the root cause before its consequences.

It is pure, and reads what the scheduler, the launchers, the log and the nodes say. The agent and
the containers of training jobs use it; those have no pydantic, so it needs the standard library
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .diagnosis_launches import SIGKILL, of_launches
from .diagnosis_rest import of_log, of_what_is_left
from .diagnosis_sources import Job, Launch
from .diagnosis_verdict import Diagnosis

_ALL_KILLED = (
    "every process of the job is gone from its nodes, and Slurm's step daemons with them, so none "
    "could say why"
)
LOG_TAIL_BYTES = 8192


def diagnose(
    job: Job | None,
    launches: Sequence[Launch],
    log_tail: str,
    *,
    lost: Sequence[str],
    cancelled: bool,
    superseded: bool,
    hollow: bool = False,
) -> Diagnosis:
    """`lost`: nodes of the job that are lost; `cancelled`: we were asked to.

    `superseded`: a newer attempt ended this one. `hollow`: we ended the job because its launchers
    had ended or were gone, so Slurm's words are about our scancel.
    """
    if hollow and _told_by_all(job, launches) and _all_well(launches):
        return _good_end(launches)
    if hollow and not lost and not cancelled:
        if launches and all(item.ended is None for item in launches):
            return of_log(log_tail, None, None) or Diagnosis(
                "failed", None, SIGKILL, _ALL_KILLED, "signal"
            )
        return of_launches(launches, None, job) or of_what_is_left(launches, log_tail, None, None)
    if job is not None and not lost and _well(job, launches):
        return _good_end(launches)
    return (
        _of_orders(job, lost=lost, cancelled=cancelled, superseded=superseded)
        or _of_nodes(job, lost)
        or _of_limits(job)
        or _of_program(job, launches, log_tail)
    )


def _good_end(launches: Sequence[Launch]) -> Diagnosis:
    remarks = [f"{launch.node}: {launch.remark}" for launch in launches if launch.remark]
    more = f" {len(remarks) - 1} more nodes say the like." if len(remarks) > 1 else ""
    return Diagnosis("succeeded", exit_code=0, remark=f"{remarks[0]}.{more}" if remarks else "")


def _codes(job: Job | None) -> tuple[int | None, int | None]:
    """Exit code and signal."""
    return (job.exit_code, job.signal or None) if job else (None, None)


def _well(job: Job, launches: Sequence[Launch]) -> bool:
    return job.exit_code == 0 and job.signal == 0 and _completed(job, launches)


def _of_orders(
    job: Job | None, *, lost: Sequence[str], cancelled: bool, superseded: bool
) -> Diagnosis | None:
    """The job was cancelled: by Slurm itself, by us, or by a person."""
    explained = bool(lost) or superseded
    if job is not None and not explained and not cancelled and _refused(job):
        return Diagnosis(
            "failed",
            error="Slurm: a node refused to start the job, so Slurm itself cancelled it",
            error_kind="unknown",
        )
    if cancelled or (job is not None and job.state == "CANCELLED" and not explained):
        code, number = _codes(job)
        return Diagnosis("cancelled", exit_code=code, signal=number)
    return None


def _of_nodes(job: Job | None, lost: Sequence[str]) -> Diagnosis | None:
    if not lost and (job is None or job.state != "NODE_FAIL"):
        return None
    code, number = _codes(job)
    node = lost[0] if lost else None
    return Diagnosis("failed", code, number, error_kind="node", failed_node=node)


def _of_limits(job: Job | None) -> Diagnosis | None:
    if job is None or job.state not in ("TIMEOUT", "DEADLINE", "BOOT_FAIL"):
        return None
    words = {"TIMEOUT": "the job's time limit was reached"}
    error = f"Slurm: {words.get(job.state, job.state)}"
    code, number = _codes(job)
    return Diagnosis("failed", code, number, error=error, error_kind="unknown")


def _of_program(job: Job | None, launches: Sequence[Launch], log_tail: str) -> Diagnosis:
    """What the launchers and the log say; Slurm's words where those know less."""
    code, number = _codes(job)
    found = of_launches(launches, code, job) or of_what_is_left(launches, log_tail, code, number)
    if job is not None and job.state == "OUT_OF_MEMORY" and found.error_kind != "out-of-memory":
        return replace(
            found,
            error="Slurm: a process of the job was killed for want of memory",
            error_kind="out-of-memory",
            memory="host",
        )
    if job is None and found.error_kind == "unknown" and found.exit_code is None:
        return replace(
            found,
            error="Slurm does not know the job any more; "
            "slurmctld lost it when it crashed, or forgot it after its end",
        )
    return found


def _refused(job: Job) -> bool:
    """Whether the batch script refused to run twice: a slurmctld that crashed starts jobs again.

    A person's scancel leaves a signal, or a job that never had a node.
    """
    return job.state == "CANCELLED" and bool(job.nodes) and not job.exit_code and not job.signal


def _completed(job: Job, launches: Sequence[Launch]) -> bool:
    """Whether the job ended well. COMPLETING does not say how a job ends, and lasts while a node is
    away; then the launchers of all nodes must say that they ended well. At COMPLETED none may say
    otherwise.
    """
    if job.state == "COMPLETING":
        return _told_by_all(job, launches) and _all_well(launches)
    return job.state == "COMPLETED" and not any(item.kind is not None for item in launches)


def _told_by_all(job: Job | None, launches: Sequence[Launch]) -> bool:
    """Whether all nodes' reports are there: one that cannot be read just now may say otherwise."""
    return bool(launches) and {launch.node for launch in launches} >= set(job.nodes if job else ())


def _all_well(launches: Sequence[Launch]) -> bool:
    return all(item.ended is not None and item.kind is None for item in launches)
