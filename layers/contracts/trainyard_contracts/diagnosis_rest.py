"""The cause of an end where no launcher names one: the log, other ranks, exit codes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .diagnosis_launches import moment
from .diagnosis_sources import Launch
from .diagnosis_verdict import Diagnosis, Kind
from .diagnosis_words import first_exception, memory_in, one_line

_ROOT_CAUSE = re.compile(r"Root Cause.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
#: Behind an address in gloo's words; the next attempt has another one.
_PORT = re.compile(r"\]:\d+(?:\$\d+)?")
#: What Slurm's commands say when Slurm itself ended a step or a job.
_SLURM_ENDED = re.compile(r"srun: Force Terminated |slurmstepd: error: \*\*\* ")
_SIGTERM = 15
# A trainer's exit code: a checkpoint cannot be written.
CHECKPOINT_FAILED = 74


def of_what_is_left(
    launches: Sequence[Launch], log_tail: str, code: int | None, number: int | None
) -> Diagnosis:
    """The cause where no launcher names one: what the log says, or a launcher about other ranks,
    or the batch script's own end.
    """
    return (
        of_log(log_tail, code, number) or _of_peers(launches) or _of_codes(log_tail, code, number)
    )


def of_log(log_tail: str, code: int | None, number: int | None) -> Diagnosis | None:
    """A traceback that is no consequence, or torchrun's summary."""
    error = first_exception(log_tail)
    if error is not None:
        memory = memory_in(error)
        kind: Kind = "python-error" if memory is None else "out-of-memory"
        return Diagnosis("failed", code, number, error, kind, memory=memory)
    root = _ROOT_CAUSE.search(log_tail)
    if root is not None and int(root.group(2)) < 0:
        return Diagnosis("failed", code, -int(root.group(2)), None, "signal")
    return None


def _of_peers(launches: Sequence[Launch]) -> Diagnosis | None:
    """Ranks lost each other and none failed: those that were left over were killed after it."""
    lost = [item for item in launches if item.ended is not None and item.kind == "peer"]
    if not lost:
        return None
    first = min(lost, key=lambda item: moment(item, launches))
    said = _PORT.sub("]", first.error or "")
    error = f"ranks do not reach each other, and none of them failed: {said}"
    return Diagnosis(
        "failed", first.exit_code, None, one_line(error), "unknown", first.node,
        exception=first.exception, traceback=first.traceback or "",
    )  # fmt: skip


def _of_codes(log_tail: str, code: int | None, number: int | None) -> Diagnosis:
    """The batch script's own end, with the log's last words."""
    if number:
        return Diagnosis("failed", code, number, None, "signal")
    if code is not None and 128 < code < 160 and code != 128 + _SIGTERM:
        return Diagnosis("failed", code, code - 128, None, "signal")
    last = next((line.strip() for line in reversed(log_tail.splitlines()) if line.strip()), None)
    if last is not None and _SLURM_ENDED.match(last):
        return Diagnosis("failed", code, number, one_line(f"Slurm: {last}"), "unknown")
    return Diagnosis(
        "failed",
        code,
        number,
        one_line(last),
        "checkpoint" if code == CHECKPOINT_FAILED else "unknown",
    )
