"""What a process costs is read from the kernel."""

from __future__ import annotations

import os
import time

from bench.agent_cost import cpu_seconds, resident_mb


def test_a_process_has_the_time_that_it_computed_and_the_memory_that_it_has() -> None:
    before, began = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - began < 0.1:
        sum(range(1000))
    assert 0.05 < cpu_seconds(os.getpid()) - before < 60
    assert 10 < resident_mb(os.getpid()) < 100_000
