"""Checkpoints are copied to S3 file by file whenever they change, and come back at the start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from trainyard_local.training_jobs.checkpoints import Checkpoints
from trainyard_local.training_jobs.inputs import InputFailed


class Bucket:
    """Objects in memory; every copy into it is noted."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = {f"run/{key}": body for key, body in objects.items()}
        self.puts: list[str] = []
        self.refuses = False

    def keys(self, location: Any) -> list[str]:
        if self.refuses:
            raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "ListObjects")
        return [key for key in self.objects if key.startswith(location.prefix)]

    def get(self, bucket: str, key: str, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.objects[key])

    def put(self, file: Path, bucket: str, key: str) -> None:
        if self.refuses:
            raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "PutObject")
        self.puts.append(key)
        self.objects[key] = file.read_bytes()


def of(bucket: Bucket, *directories: Path) -> Checkpoints:
    hosts: Any = [SimpleNamespace(ml=directory) for directory in directories]
    s3: Any = bucket
    place = {"S3Uri": "s3://bucket/run"}
    return Checkpoints(place, s3, hosts, directories[0].parent, seconds=3600)


def test_every_host_gets_what_is_in_s3_and_it_is_not_sent_back(tmp_path: Path) -> None:
    bucket = Bucket(step=b"7")
    found = of(bucket, tmp_path / "a", tmp_path / "b")
    found.restore()
    for host in ("a", "b"):
        assert (tmp_path / host / "checkpoints" / "step").read_text() == "7"
    found.copy()
    assert bucket.puts == []


def test_only_what_changed_is_copied(tmp_path: Path) -> None:
    bucket, directory = Bucket(), tmp_path / "checkpoints"
    found = of(bucket, tmp_path)
    found.restore()
    (directory / "deep").mkdir()
    (directory / "deep" / "part").write_text("one")
    (directory / "step").write_text("1")
    found.copy()
    assert sorted(bucket.puts) == ["run/deep/part", "run/step"]
    (directory / "step").write_text("12")
    found.finish()
    assert bucket.puts[2:] == ["run/step"]
    assert bucket.objects["run/step"] == b"12"


def test_what_s3_refuses_is_tried_again_later_and_at_the_start_fails_the_job(
    tmp_path: Path,
) -> None:
    bucket = Bucket()
    found = of(bucket, tmp_path)
    found.restore()
    (tmp_path / "checkpoints" / "step").write_text("1")
    bucket.refuses = True
    found.copy()
    with pytest.raises(InputFailed, match="ClientError: Checkpoint download failed:Forbidden"):
        of(bucket, tmp_path).restore()
    bucket.refuses = False
    found.copy()
    assert bucket.puts == ["run/step"]
