"""The node's clock.

A clock that is not synchronised breaks request signatures, Slurm's credentials and logs' order.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 60.0, 3
WARNING_SECONDS, ERROR_SECONDS = 1.0, 30.0
_STA_UNSYNC = 0x40


class _Timex(ctypes.Structure):
    """The head of Linux's struct timex (adjtimex(2)); with modes = 0 the call only reads."""

    _fields_ = [
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    ]  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """The kernel's own bound of the clock's error."""

    synchronised: bool
    max_error_seconds: float


def read(node: Node) -> Reading | None:
    state = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state)) < 0:
        return None
    return Reading(not state.status & _STA_UNSYNC, state.maxerror / 1e6)


def judge(reading: Reading) -> Verdict:
    # The kernel lets maxerror grow to 16 s while nothing disciplines the clock: that alone is worth
    # a warning, not an error.
    if not reading.synchronised:
        return Verdict(
            "warning",
            f"the clock is not synchronised (error up to {reading.max_error_seconds:.0f} s); "
            "is chronyd running?",
        )
    if reading.max_error_seconds >= WARNING_SECONDS:
        bad = reading.max_error_seconds >= ERROR_SECONDS
        return Verdict(
            "error" if bad else "warning",
            f"the clock may be wrong by {reading.max_error_seconds:.1f} s",
        )
    return Verdict("healthy", f"synchronised within {reading.max_error_seconds:.3f} s")
