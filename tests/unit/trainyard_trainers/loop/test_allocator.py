"""Memory that was freed is there for the next step, without the kernel."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.real

PROGRAM = """
import resource, sys
from trainyard_trainers.loop.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray(50_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_what_was_freed_is_used_again_without_new_pages() -> None:
    faults = {
        how: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
            ).stdout
        )
        for how in ("kept", "given-back")
    }
    assert faults["kept"] < 100
    assert faults["given-back"] > 20 * faults["kept"]
