"""Trainyard's program in the containers of training jobs: what it trains, keeps and tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.job_container import ContainerCloud, container_cloud

STEPS = ["--steps", "40", "--step-seconds", "0.05"]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCloud]:
    with container_cloud(tmp_path_factory.mktemp("jobs")) as up:
        yield up


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_run_is_trained_and_what_it_made_is_in_s3(jobs: ContainerCloud, hosts: int) -> None:
    run = f"run-plain-{hosts}"
    name = jobs.start(run, hosts=hosts, arguments=STEPS, checkpointEverySteps=10, checkpointKeep=2)

    jobs.cloud.until(name, "Completed")

    end = jobs.ended(run)
    assert (end["outcome"], end["exitCode"], end["lastStep"]) == ("succeeded", 0, 40)
    names = [f"algo-{number}" for number in range(1, hosts + 1)]
    assert [started["nodes"] for started in jobs.told(run, "AttemptStarted")] == [names]
    [stepped] = jobs.told(run, "AttemptStepped")
    assert stepped["resumedFrom"] is None
    committed = jobs.told(run, "CheckpointCommitted")
    assert committed[-1]["path"] == f"checkpoints/step-{committed[-1]['step']:012d}-attempt-1"
    assert jobs.whole(run)[-1] == committed[-1]["step"]
    assert len(jobs.whole(run)) <= 2
    assert jobs.final(run)
