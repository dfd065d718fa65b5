"""How this process's host memory is allocated."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # glibc's malloc.h


def keep_freed_memory() -> None:
    """Let malloc keep what is freed for the next step, which needs as much again.

    By default glibc gives tensors of over 32 MB, and what is free at the heap's end, back to the
    kernel at once; in every step the kernel must then find and clear the same pages again.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)
