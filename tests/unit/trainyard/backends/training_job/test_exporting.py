"""An export of a training job's run: copies within S3, in pieces, each compared by its hash."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone

import pytest
from botocore.exceptions import ClientError
from tests.support.job_account import FakeS3
from tests.support.memory import MemoryBlobs, MemoryClock

from trainyard.backends.training_job import exporting, large_copies
from trainyard.backends.training_job.directory import S3Directory
from trainyard.backends.training_job.exporting import Exporter, ExportImpossible
from trainyard.domain.errors import RetryableError
from trainyard_contracts.commands import Export
from trainyard_contracts.files import CheckpointManifest, ExportManifest, ManifestFile

RUN = "run-01jdxqzzzzzzzzzzzzzzzzzz8k"
FROM, TO = f"directories/c/{RUN}/", f"clusters/c/runs/{RUN}/export/"
GIVEN = Export(RUN, "e1", f"s3://{MemoryBlobs.bucket}/{TO}", "all")
CHECKPOINT = "checkpoints/step-000000000010-attempt-1"
BODY = b"weights"


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture
def s3() -> FakeS3:
    s3, blobs = FakeS3(), MemoryBlobs()
    s3.objects = blobs.objects
    manifest = CheckpointManifest(
        run_id=RUN,
        attempt=1,
        step=10,
        world_size=1,
        created_at=datetime(2026, 11, 24, tzinfo=timezone.utc),
        files=[ManifestFile(path="w.pt", bytes=len(BODY), sha256=sha(BODY))],
    )
    for group in (CHECKPOINT, "final"):
        s3.objects[f"{FROM}{group}/w.pt"] = BODY
        text = manifest.model_dump_json(by_alias=True).encode()
        s3.objects[f"{FROM}{group}/manifest.json"] = text
    s3.objects[f"{FROM}output/result.txt"] = b"42"
    return s3


def exporter(s3: FakeS3) -> Exporter:
    blobs = MemoryBlobs()
    blobs.objects = s3.objects
    return Exporter(S3Directory(s3, blobs.bucket, FROM), blobs, TO, MemoryClock())


def test_every_object_is_copied_and_the_manifest_names_each(s3: FakeS3) -> None:
    answer = exporter(s3).export(GIVEN, 60)

    body = s3.objects[f"{TO}export-manifest.json"]
    manifest = ExportManifest.model_validate_json(body)
    assert (answer.state, answer.manifest_sha256) == ("finished", sha(body))
    assert {one.key: one.sha256 for one in manifest.objects}["output/result.txt"] == sha(b"42")
    assert all(s3.objects[TO + one.key] == s3.objects[FROM + one.key] for one in manifest.objects)
    assert (manifest.last_step, manifest.final_model, manifest.output_files) == (10, True, 1)


def test_an_export_goes_on_where_the_last_command_ended(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([0.0, 0.0, 0.0, 0.0, *[99.0] * 50])
    monkeypatch.setattr(exporting, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(exporting, "_AT_ONCE", 1)
    assert exporter(s3).export(GIVEN, 60).state == "paused"
    first = list(s3.copied)
    assert len(first) == 2
    assert f"{TO}export-manifest.json" not in s3.objects

    monkeypatch.undo()
    assert exporter(s3).export(GIVEN, 60).state == "finished"
    assert len(s3.copied) == len(set(s3.copied)) == 5


def test_what_is_done_is_kept_while_an_export_copies(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may die amid its copies, and the next one must not begin anew."""
    ticks = iter([0.0, 0.0, 0.0, 6.0, 12.0])
    monkeypatch.setattr(exporting, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(exporting, "_AT_ONCE", 1)
    with pytest.raises(StopIteration):  # the clock ends, and the process with it
        exporter(s3).export(GIVEN, 60)
    first = list(s3.copied)
    assert len(first) == 3

    monkeypatch.undo()
    assert exporter(s3).export(GIVEN, 60).state == "finished"
    assert len(s3.copied) == 5 + 1


def test_the_same_again_is_the_same_export(s3: FakeS3) -> None:
    exporter(s3).export(GIVEN, 60)
    assert exporter(s3).export(GIVEN, 60).state == "finished"


def test_an_object_that_is_not_what_its_manifest_says_ends_the_export(s3: FakeS3) -> None:
    s3.objects[f"{FROM}{CHECKPOINT}/w.pt"] = b"weightz"
    with pytest.raises(ExportImpossible, match="another SHA-256 than its manifest"):
        exporter(s3).export(GIVEN, 60)
    assert f"{TO}export-manifest.json" not in s3.objects


def test_a_checkpoint_of_another_run_is_none(s3: FakeS3) -> None:
    path = f"{FROM}{CHECKPOINT}/manifest.json"
    s3.objects[path] = s3.objects[path].replace(RUN.encode(), b"run-other")
    exporter(s3).export(GIVEN, 60)
    manifest = json.loads(s3.objects[f"{TO}export-manifest.json"])
    assert manifest["lastStep"] is None


LARGE = bytes(range(256)) * 4


@pytest.fixture
def large(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    """One file of eleven parts, which S3 does not copy in one piece."""
    monkeypatch.setattr(large_copies, "MOST_BYTES_OF_A_COPY", 1000)
    monkeypatch.setattr(large_copies, "_AT_ONCE", 1)
    s3.put_in_parts(f"{FROM}output/large", LARGE, 100)
    return s3


def test_what_s3_does_not_copy_in_one_piece_is_copied_by_its_parts(large: FakeS3) -> None:
    assert exporter(large).export(GIVEN, 60).state == "finished"

    assert large.objects[f"{TO}output/large"] == LARGE
    manifest = ExportManifest.model_validate_json(large.objects[f"{TO}export-manifest.json"])
    [one] = [entry for entry in manifest.objects if entry.key == "output/large"]
    shown = large.head_object(Bucket="b", Key=f"{TO}output/large", ChecksumMode="ENABLED")
    assert (one.sha256, one.checksum) == (sha(LARGE), shown["ChecksumSHA256"])
    assert one.checksum.endswith("-11")


def test_a_copy_by_parts_goes_on_where_the_last_command_ended(
    large: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([*[0.0] * 7, *[99.0] * 50])
    monkeypatch.setattr(exporting, "monotonic", lambda: next(ticks))
    assert exporter(large).export(GIVEN, 60).state == "paused"
    some = len([one for one in large.copied if "output/large " in one])
    assert 0 < some < 11
    monkeypatch.undo()
    monkeypatch.setattr(large_copies, "MOST_BYTES_OF_A_COPY", 1000)

    assert exporter(large).export(GIVEN, 60).state == "finished"

    parts = [one for one in large.copied if "output/large " in one]
    assert len(parts) == len(set(parts)) == 11
    assert len(large.uploads) == 0


def test_a_copy_that_was_completed_before_its_process_died_is_not_made_again(
    large: FakeS3,
) -> None:
    exporter(large).export(GIVEN, 60)
    before = len(large.copied)
    for key in [key for key in large.objects if "/progress-" in key]:
        del large.objects[key]  # it died before it kept that
    exporter(large).export(GIVEN, 60)
    assert not [one for one in large.copied[before:] if "output/large " in one]


def test_an_upload_that_s3_gave_up_meanwhile_is_begun_anew(
    large: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([*[0.0] * 7, *[99.0] * 50])
    monkeypatch.setattr(exporting, "monotonic", lambda: next(ticks))
    exporter(large).export(GIVEN, 60)
    large.uploads.clear()
    monkeypatch.undo()
    monkeypatch.setattr(large_copies, "MOST_BYTES_OF_A_COPY", 1000)

    assert exporter(large).export(GIVEN, 60).state == "paused"
    assert exporter(large).export(GIVEN, 60).state == "finished"


def test_a_large_object_of_unknown_hash_is_said(large: FakeS3) -> None:
    del large.beside[f"{FROM}output/large"]
    with pytest.raises(ExportImpossible, match="output/large has more than 5 GiB and does not say"):
        exporter(large).export(GIVEN, 60)


def test_a_large_object_that_is_not_what_its_manifest_says_ends_the_export(
    large: FakeS3,
) -> None:
    large.put_in_parts(f"{FROM}{CHECKPOINT}/w.pt", LARGE, 100)
    path = f"{FROM}{CHECKPOINT}/manifest.json"
    manifest = json.loads(large.objects[path])
    manifest["files"][0]["bytes"] = len(LARGE)
    large.objects[path] = json.dumps(manifest).encode()
    with pytest.raises(ExportImpossible, match="another SHA-256 than its manifest"):
        exporter(large).export(GIVEN, 60)


def test_what_aws_refuses_is_an_export_that_failed_with_its_words(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**given: object) -> None:
        denied = {"Error": {"Code": "AccessDenied", "Message": "Access Denied by a policy"}}
        raise ClientError(denied, "CopyObject")

    monkeypatch.setattr(s3, "copy_object", refuse)
    with pytest.raises(ExportImpossible, match="Access Denied by a policy"):
        exporter(s3).export(GIVEN, 60)


def test_what_passes_by_itself_is_tried_again(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**given: object) -> None:
        raise ClientError({"Error": {"Code": "SlowDown", "Message": "slow down"}}, "CopyObject")

    monkeypatch.setattr(s3, "copy_object", refuse)
    with pytest.raises(RetryableError):
        exporter(s3).export(GIVEN, 60)
