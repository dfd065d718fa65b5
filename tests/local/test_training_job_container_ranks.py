"""Ranks that AWS's own launcher starts in the containers of training jobs, and the keeper there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.job_container import ContainerCloud, container_cloud

#: Each rank has a file of its own in the checkpoint; the first time it ends after one.
LIBRARY = """
import os, sys, torch.distributed as dist, trainyard_job
dist.init_process_group("gloo")
saved = trainyard_job.latest()
first = saved.step if saved else 0
rank = os.environ["RANK"]
if saved:
    assert (saved.path / f"rank-{rank}").read_text() == f"{rank} at {saved.step}", saved
for step in range(first + 1, first + 5):
    trainyard_job.report(step, loss=1.0 / step)
    if step % 2 == 0:
        with trainyard_job.checkpoint(step) as directory:
            (directory / f"rank-{rank}").write_text(f"{rank} at {step}")
if not saved and rank == "1":
    raise KeyError("no banana")
if not saved:
    dist.barrier()
with trainyard_job.final(step) as directory:
    (directory / f"of-{rank}").write_text("final")
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCloud]:
    with container_cloud(tmp_path_factory.mktemp("jobs")) as up:
        yield up


def test_ranks_of_aws_own_launcher_save_together_fail_and_resume(jobs: ContainerCloud) -> None:
    spec = {"hosts": 2, "torchrun": True, "program": ["lib.py"], "files": {"lib.py": LIBRARY}}
    job = jobs.cloud.until(jobs.start("run-ranks", **spec), "Failed")

    end = jobs.ended("run-ranks")
    assert (end["outcome"], end["error"]) == ("failed", "KeyError: 'no banana'")
    assert (end["failedNode"], end["lastStep"]) == ("algo-2", 4)
    assert "lib.py" in end["traceback"]
    assert "KeyError" in job["FailureReason"]
    assert jobs.whole("run-ranks")[-1] == 4

    jobs.cloud.until(jobs.start("run-ranks", attempt=2, **spec), "Completed")

    [stepped] = jobs.told("run-ranks", "AttemptStepped", 2)
    assert stepped["resumedFrom"] == 4
    assert jobs.ended("run-ranks", 2)["outcome"] == "succeeded"
    assert jobs.final("run-ranks").keys() == {"of-0", "of-1"}
    assert "Invoking TorchDistributed" in jobs.cloud.log("run-ranks-2")
