"""An export is verified from outside: all bytes are downloaded, and nothing lacks or is extra."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from demo.leftovers import processes_of
from demo.objects import differences, verify_export, weights
from moto import mock_aws
from tests.support.waiting import eventually

RUN = "run-01h00000000000000000000000"


@pytest.fixture
def s3() -> Any:
    with mock_aws():
        client = boto3.client(
            "s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
        )
        client.create_bucket(Bucket="data")
        export(client, {"final/model.bin": b"weights", "checkpoints/step-1/a": b"abc"})
        yield client


def export(client: Any, files: dict[str, bytes]) -> None:
    objects = []
    for key, body in files.items():
        client.put_object(Bucket="data", Key=f"runs/{RUN}/export/{key}", Body=body)
        objects.append({"key": key, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()})
    manifest = {
        "runId": RUN,
        "createdAt": "2026-03-01T10:00:00Z",
        "objects": objects,
        "lastStep": 1,
        "finalModel": True,
    }
    client.put_object(
        Bucket="data", Key=f"runs/{RUN}/export/export-manifest.json", Body=json.dumps(manifest)
    )


def test_a_whole_export_verifies(s3: Any) -> None:
    found = verify_export(s3, "data", RUN)
    assert found.wrong == []
    assert (found.objects, found.size) == (2, 10)
    assert found.final == {"final/model.bin": b"weights"}


def test_a_changed_a_missing_and_an_extra_object_are_all_told(s3: Any) -> None:
    s3.put_object(Bucket="data", Key=f"runs/{RUN}/export/final/model.bin", Body=b"weighty")
    s3.delete_object(Bucket="data", Key=f"runs/{RUN}/export/checkpoints/step-1/a")
    s3.put_object(Bucket="data", Key=f"runs/{RUN}/export/stray", Body=b"")
    wrong = "\n".join(verify_export(s3, "data", RUN).wrong)
    assert "final/model.bin is not what the manifest says" in wrong
    assert "checkpoints/step-1/a is missing" in wrong
    assert "stray is not in the manifest" in wrong


def test_without_a_manifest_nothing_is_verified(s3: Any) -> None:
    s3.delete_object(Bucket="data", Key=f"runs/{RUN}/export/export-manifest.json")
    assert "is missing" in verify_export(s3, "data", RUN).wrong[0]


def test_an_empty_export_does_not_verify(s3: Any) -> None:
    export(s3, {})
    assert "the manifest is empty" in verify_export(s3, "data", RUN).wrong


def test_weights_are_equal_only_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")

    def saved(value: float) -> dict[str, bytes]:
        stream = io.BytesIO()
        torch.save({"weight": torch.tensor([[1.0, value]]), "bias": torch.tensor([0.0])}, stream)
        return {"final/model.pt": stream.getvalue(), "final/manifest.json": b"{}"}

    assert differences(weights(saved(2.0)), weights(saved(2.0))) == []
    (differing,) = differences(weights(saved(0.0)), weights(saved(-0.0)))
    assert "weight" in differing
    assert weights(saved(1.0))


@pytest.mark.real
def test_a_process_of_the_local_cloud_is_found_by_its_tag_until_it_ends(tmp_path: Path) -> None:
    environment = {**os.environ, "TRAINYARD_LOCAL": str(tmp_path.resolve())}
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], env=environment, stdin=subprocess.PIPE
    ) as process:
        # Between exec and the first instruction the kernel shows no environment yet.
        eventually("it is found", lambda: process.pid in processes_of(tmp_path))
        assert process.pid not in processes_of(tmp_path / "other")
        assert process.pid not in processes_of(tmp_path, "TRAINYARD_NODE")
        process.communicate(b"\n")
    assert processes_of(tmp_path) == {}
