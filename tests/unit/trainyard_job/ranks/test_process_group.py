"""A program that leaves its process group to the end of the interpreter has left it before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import job_ranks

import trainyard_job

pytestmark = pytest.mark.real
#: What registers first comes last: when all else has had its turn, it says what is left.
PROGRAM = """
import atexit, sys
import torch.distributed as dist
atexit.register(
    lambda: print("group is there" if dist.is_initialized() else "group left", flush=True)
)
import trainyard_job
dist.init_process_group("gloo")
trainyard_job.latest()
"""


@pytest.mark.parametrize(
    ("end", "code"), [("", 0), ("sys.exit(trainyard_job.STOPPED)", trainyard_job.STOPPED)]
)
def test_a_program_that_ends_has_left_its_group(tmp_path: Path, end: str, code: int) -> None:
    ended = job_ranks.finished(tmp_path, PROGRAM + end, 2, **job_ranks.rendezvous())
    found = [(rank.code, rank.out) for rank in ended]
    assert found == [(code, "group left\n")] * 2, job_ranks.told(ended)


def test_exit_handlers_of_the_program_still_have_the_group(tmp_path: Path) -> None:
    handler = "atexit.register(lambda: (dist.barrier(), print('saved', flush=True)))\n"
    program = PROGRAM.replace("trainyard_job.latest()", f"{handler}trainyard_job.latest()")
    ended = job_ranks.finished(tmp_path, program, 2, **job_ranks.rendezvous())
    assert [rank.out for rank in ended] == ["saved\ngroup left\n"] * 2, job_ranks.told(ended)


def test_one_that_an_exception_ends_waits_for_no_peer(tmp_path: Path) -> None:
    program = PROGRAM + "raise KeyError('mine')"
    ended = job_ranks.finished(tmp_path, program, 2, **job_ranks.rendezvous())
    assert all(rank.code for rank in ended), job_ranks.told(ended)
    assert [rank.out for rank in ended] == ["group is there\n"] * 2, job_ranks.told(ended)
