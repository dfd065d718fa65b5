"""Trainyard's program in the containers of training jobs: what it trains, keeps and tells."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.job_cloud import BUCKET, eventually
from tests.support.job_container import ContainerCloud, container_cloud

from trainyard.aws.blobs import S3Blobs
from trainyard.backends.training_job.large_copies import LargeCopy
from trainyard_container import store

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


def test_a_lost_host_costs_the_steps_since_the_newest_checkpoint_and_no_bit(
    jobs: ContainerCloud,
) -> None:
    spec = {"hosts": 2, "checkpointEverySteps": 10, "checkpointKeep": 3}
    steps = ["--steps", "60", "--step-seconds"]
    whole = jobs.start("run-whole", arguments=[*steps, "0.05"], **spec)
    broken = jobs.start("run-broken", arguments=[*steps, "0.5"], **spec)
    eventually("a checkpoint", lambda: len(jobs.told("run-broken", "CheckpointCommitted")) >= 2)

    jobs.cloud.fault("kill-host", job=broken, host="algo-2")
    jobs.cloud.until(broken, "Failed")
    kept = jobs.whole("run-broken")
    again = jobs.start("run-broken", attempt=2, arguments=[*steps, "0.05"], **spec)

    jobs.cloud.until(again, "Completed")
    jobs.cloud.until(whole, "Completed")
    assert jobs.told("run-broken", "AttemptEnded", 1) == []
    [stepped] = jobs.told("run-broken", "AttemptStepped", 2)
    assert (stepped["resumedFrom"], kept[-1] >= 20) == (kept[-1], True)
    assert jobs.final("run-broken") == jobs.final("run-whole")


def test_a_torn_checkpoint_is_skipped_and_reported(jobs: ContainerCloud) -> None:
    spec = {"checkpointEverySteps": 5, "checkpointKeep": 9}
    first = jobs.start("run-torn", arguments=["--steps", "20", "--step-seconds", "0.1"], **spec)
    jobs.cloud.until(first, "Completed")
    *_, older, changed, gone = jobs.whole("run-torn")
    jobs.tear("run-torn", gone, keep=False)
    jobs.tear("run-torn", changed, keep=True)

    again = jobs.start("run-torn", attempt=2, arguments=["--steps", "25"], **spec)

    jobs.cloud.until(again, "Completed")
    [stepped] = jobs.told("run-torn", "AttemptStepped", 2)
    assert stepped["resumedFrom"] == older
    rejected = {one["step"]: one["reason"] for one in jobs.told("run-torn", "CheckpointRejected")}
    assert rejected == {
        gone: "rank-00000.pt is missing",
        changed: "rank-00000.pt does not have the manifest's sha256",
    }


def test_the_exception_of_a_program_is_the_attempts_end(jobs: ContainerCloud) -> None:
    source = "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('a banana')\n"
    source += "import time\ntime.sleep(60)\n"
    name = jobs.start("run-fails", hosts=2, program=["train.py"], files={"train.py": source})

    job = jobs.cloud.until(name, "Failed")

    end = jobs.ended("run-fails")
    assert (end["outcome"], end["error"]) == ("failed", "ValueError: a banana")
    assert (end["errorKind"], end["exception"]) == ("python-error", "ValueError")
    assert "train.py" in end["traceback"]
    assert end["failedNode"] == "algo-2"
    assert "ValueError: a banana" in end["logTail"]
    assert "a banana" in job["FailureReason"]


def test_a_stop_saves_first_and_no_step_is_lost(jobs: ContainerCloud) -> None:
    steps = ["--steps", "10000", "--step-seconds", "0.05"]
    name = jobs.start("run-stop", hosts=2, signals=True, arguments=steps, checkpointEverySteps=9999)
    eventually("its first step", lambda: jobs.told("run-stop", "AttemptStepped"))

    jobs.cloud.sagemaker.stop_training_job(TrainingJobName=name)
    jobs.cloud.until(name, "Stopped")

    [committed] = jobs.told("run-stop", "CheckpointCommitted")
    assert jobs.whole("run-stop") == [committed["step"]]
    # Who asked, and for what, only the control plane knows: the container calls it no end.
    assert jobs.told("run-stop", "AttemptEnded") == []
    rest = ["--steps", str(committed["step"] + 5)]
    again = jobs.start("run-stop", attempt=2, hosts=2, arguments=rest)
    jobs.cloud.until(again, "Completed")
    [stepped] = jobs.told("run-stop", "AttemptStepped", 2)
    assert stepped["resumedFrom"] == committed["step"]


def test_a_bundle_that_was_exchanged_is_refused(jobs: ContainerCloud) -> None:
    name = jobs.start("run-other", sha256="0" * 64)

    job = jobs.cloud.until(name, "Failed")

    assert "is not the object that was submitted" in job["FailureReason"]
    assert jobs.ended("run-other")["error"].startswith("TRAINYARD_BUNDLE: ")


WORKS = """
import json, os, pathlib, sys
rank = os.environ["RANK"]
steps = pathlib.Path("steps.json")
done = json.loads(steps.read_text()) if steps.exists() else 0
out = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
out.joinpath(f"of-rank-{rank}").write_text(f"{os.uname().nodename} {done}")
out.joinpath("same").write_text(f"of rank {rank}")
steps.write_text(json.dumps(done + 1))
sys.exit(3 if done == 0 else 0)
"""


def test_what_a_program_left_beside_its_checkpoints_is_kept_and_is_there_again(
    jobs: ContainerCloud,
) -> None:
    spec = {"hosts": 2, "program": ["works.py"], "files": {"works.py": WORKS, "conf": "1"}}
    jobs.cloud.until(jobs.start("run-works", **spec), "Failed")
    assert (jobs.ended("run-works")["exitCode"], jobs.ended("run-works")["outcome"]) == (
        3,
        "failed",
    )

    jobs.cloud.until(jobs.start("run-works", attempt=2, **spec), "Completed")

    assert jobs.objects("run-works") == {
        "output/of-rank-0": b"algo-1 1",
        "output/of-rank-1": b"algo-2 1",
        "output/same": b"of rank 0",
        "work/steps.json": b"2",
    }


def test_what_s3_does_not_copy_in_one_piece_is_copied_by_the_parts_in_which_it_was_sent(
    jobs: ContainerCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PART_BYTES", 5 * 1024**2)
    body, s3 = bytes(range(256)) * 45_000, jobs.cloud.s3
    (tmp_path / "large").write_bytes(body)
    sha256 = hashlib.sha256(body).hexdigest()
    store.Store(s3, BUCKET).send(tmp_path / "large", "jobs/large", sha256)

    copy = LargeCopy(s3, BUCKET, "jobs/large", "jobs/copy")
    looks = iter([True, False])
    assert copy.go_on(lambda: next(looks, True)) is not None

    whole = LargeCopy(s3, BUCKET, "jobs/large", "jobs/copy").go_on(lambda: False)
    assert whole is not None
    assert (whole.bytes, whole.sha256) == (len(body), sha256)
    assert S3Blobs(s3, BUCKET).head("jobs/copy") == (len(body), whole.checksum)
    assert whole.checksum.endswith("-3")
    assert s3.get_object(Bucket=BUCKET, Key="jobs/copy")["Body"].read() == body


LEAVES = """
import os, pathlib, time
out = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
seen = sorted(path.name for path in out.iterdir())
(out / f"of-{os.uname().nodename}-{os.environ['TRAINYARD_ATTEMPT']}").write_text(" ".join(seen))
while os.environ["TRAINYARD_ATTEMPT"] == "1":
    time.sleep(0.1)
"""


def test_a_lost_host_loses_nothing_that_was_copied_while_it_trained(jobs: ContainerCloud) -> None:
    sync = {"everySeconds": 0.5, "prefix": "sync/x"}
    spec = {"hosts": 2, "program": ["p.py"], "files": {"p.py": LEAVES}, "sync": sync}
    name = jobs.start("run-syncs", **spec)
    eventually("both hosts' files are in S3", lambda: len(jobs.objects("run-syncs")) == 2)

    jobs.cloud.fault("kill-host", job=name, host="algo-2")
    jobs.cloud.until(name, "Failed")
    jobs.cloud.until(jobs.start("run-syncs", attempt=2, **spec), "Completed")

    assert jobs.objects("run-syncs")["output/of-algo-1-2"] == b"of-algo-1-1 of-algo-2-1"
    [told] = jobs.told("run-syncs", "ResultsSynced", 1)
    assert told["everySeconds"] == 0.5


SAVES = """
import json, os, pathlib, time
import torch
snapshot = pathlib.Path("snapshot.pt")
step = torch.load(snapshot)["step"] if snapshot.exists() else 0
if os.environ["RANK"] != "0":
    time.sleep(1)
out = pathlib.Path(os.environ["TRAINYARD_OUTPUT_DIR"])
out.joinpath(f"began-{os.environ['TRAINYARD_ATTEMPT']}-{os.environ['RANK']}").write_text(str(step))
while step < 40 or os.environ["TRAINYARD_ATTEMPT"] == "1":
    step += 1
    time.sleep(0.1)
    if os.environ["RANK"] == "0":
        torch.save({"step": step}, snapshot)
"""


def test_a_program_s_own_snapshot_outlives_its_host_and_is_there_on_every_host(
    jobs: ContainerCloud,
) -> None:
    spec = {
        "hosts": 2,
        "program": ["saves.py"],
        "files": {"saves.py": SAVES},
        "checkpointWatch": {"pattern": "snapshot.pt"},
    }
    name = jobs.start("run-saves", **spec)
    eventually("a copy", lambda: len(jobs.told("run-saves", "CheckpointCommitted")) >= 2)

    jobs.cloud.fault("kill-host", job=name, host="algo-1")
    jobs.cloud.until(name, "Failed")
    jobs.cloud.until(jobs.start("run-saves", attempt=2, **spec), "Completed")

    began = {rank: int(jobs.objects("run-saves")[f"output/began-2-{rank}"]) for rank in (0, 1)}
    assert began[0] == began[1] > 0
    [restored] = jobs.told("run-saves", "CheckpointRestored", 2)
    assert restored["source"] == "work/snapshot.pt"
    assert jobs.told("run-saves", "CheckpointCommitted", 2)[-1]["source"] == "work/snapshot.pt"
