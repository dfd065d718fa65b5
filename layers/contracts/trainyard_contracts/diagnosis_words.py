"""What the words of an error and of a log mean."""

from __future__ import annotations

import re
from typing import Literal

#: A rank whose peer died raises one of these: a consequence, never the cause.
_CONSEQUENCES = (
    "connection closed by peer", "connection reset by peer", "connection refused",
    "connectfullmesh failed", "gloo/transport", "socket closed", "broken pipe", "timed out waiting",
    "nccl error", "distbackenderror", "distnetworkerror", "diststoreerror", "childfailederror",
    "signalexception", "rendezvousconnectionerror", "rendezvousclosederror", "keyboardinterrupt",
)  # fmt: skip
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::\s?(.*))?$")
_PREFIX = re.compile(r"^(?:\d+: ?)?(?:\[(?:rank|default)\d+\]: ?)?")
#: PyTorch's words, NCCL's and Neuron's for an accelerator without memory; Python's and PyTorch's
#: for the host. A launcher reads the whole exception; these are for logs and older launchers.
_NO_DEVICE_MEMORY = re.compile(
    r"OutOfMemoryError|(?:CUDA|HIP|XPU) out of memory|(?:CUDA|HIP) error: out of memory|"
    r"Cuda failure (?:\d+ )?'out of memory'|CUBLAS_STATUS_ALLOC_FAILED|"
    r"status=4 message=\"?Allocation Failure"
)
_NO_HOST_MEMORY = re.compile(
    r"\bMemoryError\b|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory|"
    r"std::bad_alloc"
)
MAX_ERROR = 500


def memory_in(text: str) -> Literal["host", "device"] | None:
    if _NO_DEVICE_MEMORY.search(text):
        return "device"
    return "host" if _NO_HOST_MEMORY.search(text) else None


def first_exception(log: str) -> str | None:
    """The last line of the first Python traceback that is no mere consequence of a peer's death."""
    inside = False
    for line in log.splitlines():
        text = _PREFIX.sub("", line)
        if text.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and text and not text.startswith((" ", "\t")):
            inside = False
            if _EXCEPTION.match(text) and not is_consequence(text):
                return one_line(text)
    return None


def is_consequence(text: str) -> bool:
    """The error says that another process went away."""
    return any(part in text.lower() for part in _CONSEQUENCES)


def one_line(text: str | None) -> str | None:
    return text.strip().splitlines()[0][:MAX_ERROR] if text and text.strip() else None
