"""A run begins with another run's checkpoint: whole, and as the first of its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.s3_client import S3Client
from tests.unit.trainyard_container.test_surroundings import surroundings

from trainyard_container import beginning
from trainyard_container.store import Store
from trainyard_container.surroundings import Place, Surroundings, Unfit
from trainyard_job.checkpoints import checkpoint

NAME = "step-000000000010-attempt-3"
START = {"runId": "run-0", "path": f"checkpoints/{NAME}", "step": 10}
AT = f"clusters/c/runs/run-1/start/{NAME}/"


@pytest.fixture
def where(tmp_path: Path) -> Surroundings:
    bundle = Place("data", "clusters/c/runs/run-1/attempts/1/bundle.json")
    return replace(surroundings(tmp_path), bundle=bundle)


@pytest.fixture
def client() -> S3Client:
    body = b"weights"
    manifest = {
        "schema": "trainyard.checkpoint.v1",
        "runId": "run-0",
        "attempt": 3,
        "step": 10,
        "worldSize": 1,
        "createdAt": "2026-11-24T10:00:00Z",
        "files": [{"path": "w.pt", "bytes": 7, "sha256": hashlib.sha256(body).hexdigest()}],
    }
    client = S3Client()
    client.objects = {f"{AT}w.pt": body, f"{AT}manifest.json": json.dumps(manifest).encode()}
    return client


def test_it_is_a_checkpoint_of_this_run_from_then_on(where: Surroundings, client: S3Client) -> None:
    target = where.run_dir / "checkpoints"
    saved = beginning.bring(Store(client, "data"), where, target, START)
    assert (saved.path, saved.step) == (target / "step-000000000010-attempt-1", 10)
    assert checkpoint.verify(saved.path, run_id=where.run_id).attempt == 1
    assert [path.name for path in target.iterdir()] == [saved.path.name]


@pytest.mark.parametrize("broken", ["w.pt", "manifest.json"])
def test_one_that_is_not_whole_ends_the_run_in_words(
    where: Surroundings, client: S3Client, broken: str
) -> None:
    client.objects[f"{AT}{broken}"] = b"weightz"
    with pytest.raises(Unfit, match=r"checkpoint\.startFrom: step 10 of run-0 is") as refused:
        beginning.bring(Store(client, "data"), where, where.run_dir / "checkpoints", START)
    assert refused.value.lasting
