"""XID errors that the NVIDIA driver writes to the kernel log.

A verdict names the GPU, the code, and what the code means for a job.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 5.0, 1
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
_FALLEN_OFF = re.compile(r"NVRM:.*GPU.*has fallen off the bus")
#: NVIDIA's XID catalog: the GPU must be reset or the node replaced before it is used again.
FATAL = {
    46: "GPU stopped processing", 48: "double bit ECC error", 62: "PMU halt",
    64: "row remap or page retirement failed", 74: "NVLink error", 79: "GPU fell off the bus",
    95: "uncontained ECC error", 119: "GSP RPC timeout", 120: "GSP error",
    136: "link training failed", 140: "unrecovered ECC error", 143: "GPU initialisation failed",
}  # fmt: skip
#: The application is ended by it; the GPU is fine (94 is a contained ECC error: never a reason to
#: reboot).
APPLICATION = {8, 11, 13, 31, 32, 45, 63, 68, 69, 92, 94}
_lines: list[tuple[str, int]] = []
_kmsg: list[int] = []


@dataclass(frozen=True)
class Reading:
    """(GPU's PCI address, code), every one seen since the agent started, newest last."""

    errors: tuple[tuple[str, int], ...]


def read(node: Node) -> Reading | None:
    if node.accelerators.nvidia is None:
        return None
    if not _kmsg:
        with contextlib.suppress(OSError):
            _kmsg.append(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            os.lseek(_kmsg[0], 0, os.SEEK_END)
    for descriptor in _kmsg:
        _lines.extend(_drain(descriptor))
    del _lines[:-64]
    return Reading(tuple(_lines))


def _drain(descriptor: int) -> list[tuple[str, int]]:
    found = []
    while True:
        try:
            found.extend(parse(os.read(descriptor, 8192).decode(errors="replace")))
        except BlockingIOError:
            return found
        except OSError:
            # EPIPE: the ring buffer overtook us; the next read goes on with the oldest line still
            # there.
            continue


def parse(line: str) -> list[tuple[str, int]]:
    """(PCI address, code) of a kernel line; 'fallen off the bus' without a code is XID 79."""
    match = _XID.search(line)
    if match:
        return [(match.group(1), int(match.group(2)))]
    return [("unknown", 79)] if _FALLEN_OFF.search(line) else []


def judge(reading: Reading) -> Verdict:
    for gpu, code in reversed(reading.errors):
        if code in FATAL:
            return Verdict("error", f"XID {code} on {gpu}: {FATAL[code]}")
    for gpu, code in reversed(reading.errors):
        if code in APPLICATION:
            return Verdict(
                "warning", f"XID {code} on {gpu}: the application was ended by it, the GPU is fine"
            )
    return Verdict("healthy", "no XID error")
