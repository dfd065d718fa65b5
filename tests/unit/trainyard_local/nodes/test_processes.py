"""Which of a job's processes is one that trains, so that a fault kills no other."""

from __future__ import annotations

import pytest

from trainyard_local.nodes.processes import Process, worker_of

SHELL = Process(1, 0, "bash", {})
KEEPER = Process(2, 1, "python", {})
AGENT = Process(3, 1, "python", {})
RANK = Process(4, 3, "trainer-0", {})
WRITER = Process(5, 4, "checkpoint-save", {})
OTHERS = Process(6, 3, "python", {"LOCAL_RANK": "0"})
SRUN = Process(7, 1, "srun", {})


@pytest.mark.parametrize(
    ("jobs", "found"),
    [
        ([SHELL, KEEPER, AGENT, RANK, WRITER], RANK),
        ([SHELL, KEEPER, AGENT, OTHERS], OTHERS),
        ([SHELL, SRUN, KEEPER], KEEPER),
        ([SHELL, AGENT, WRITER], AGENT),
        ([SRUN], SRUN),
    ],
    ids=["forked", "started by torchrun", "no rank", "a writer alone", "nothing else"],
)
def test_the_process_that_trains_is_found(jobs: list[Process], found: Process) -> None:
    assert worker_of(jobs) == found
