"""The checkpoint of another run is copied within S3, over as many commands as that takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

import pytest
from tests.support.job_account import FakeS3
from tests.unit.trainyard.backends.training_job.test_exporting import sha

from trainyard.backends.training_job import large_copies, starting
from trainyard.backends.training_job.starting import NotThere, bring
from trainyard_contracts.files import CheckpointManifest, ManifestFile

FROM, TO = "directories/a/run-a/checkpoints/s/", "clusters/b/runs/run-b/start/s/"
BODIES = {f"rank-{number}.pt": b"%d" % number for number in range(4)}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    monkeypatch.setattr(starting, "_AT_ONCE", 1)
    s3 = FakeS3()
    manifest = CheckpointManifest(
        run_id="run-a",
        attempt=1,
        step=10,
        world_size=4,
        created_at=datetime(2026, 11, 24, tzinfo=timezone.utc),
        files=[ManifestFile(path=n, bytes=len(b), sha256=sha(b)) for n, b in BODIES.items()],
    )
    s3.objects = {f"{FROM}{name}": body for name, body in BODIES.items()}
    s3.objects[f"{FROM}manifest.json"] = manifest.model_dump_json(by_alias=True).encode()
    s3.objects[f"{FROM}left-over"] = b"not named"
    return s3


def test_it_is_copied_over_several_commands_and_the_manifest_comes_last(s3: FakeS3) -> None:
    looks = iter([True, True, False])
    assert not bring(s3, "b", FROM, TO, lambda: next(looks))
    assert len(s3.copied) == 2
    assert f"{TO}manifest.json" not in s3.objects

    assert bring(s3, "b", FROM, TO, lambda: True)
    assert len(s3.copied) == len(set(s3.copied)) == 5
    assert s3.copied[-1] == f"{TO}manifest.json"
    assert f"{TO}left-over" not in s3.objects


def test_what_was_copied_whole_stays_though_the_other_run_prunes_its_own(s3: FakeS3) -> None:
    bring(s3, "b", FROM, TO, lambda: True)
    s3.objects = {key: body for key, body in s3.objects.items() if key.startswith(TO)}
    assert bring(s3, "b", FROM, TO, lambda: True)


@pytest.mark.parametrize("gone", ["manifest.json", "rank-2.pt"])
def test_one_that_is_not_whole_any_more_is_said(s3: FakeS3, gone: str) -> None:
    del s3.objects[f"{FROM}{gone}"]
    with pytest.raises(NotThere, match="is gone"):
        bring(s3, "b", FROM, TO, lambda: True)
    assert f"{TO}manifest.json" not in s3.objects


def test_a_large_file_is_copied_by_its_parts(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_copies, "MOST_BYTES_OF_A_COPY", 0)
    for name, body in BODIES.items():
        s3.put_in_parts(f"{FROM}{name}", body, 1)
    assert bring(s3, "b", FROM, TO, lambda: True)
    assert all(s3.objects[f"{TO}{name}"] == body for name, body in BODIES.items())


def test_a_large_file_is_copied_over_several_commands_and_no_part_twice(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_copies, "MOST_BYTES_OF_A_COPY", 1)
    monkeypatch.setattr(large_copies, "_AT_ONCE", 1)
    name, body = "rank-0.pt", b"0123456789"
    manifest = CheckpointManifest.model_validate_json(s3.objects[f"{FROM}manifest.json"])
    large = ManifestFile(path=name, bytes=len(body), sha256=sha(body))
    whole = manifest.changed(files=[large, *manifest.files[1:]])
    s3.objects[f"{FROM}manifest.json"] = whole.model_dump_json(by_alias=True).encode()
    s3.put_in_parts(f"{FROM}{name}", body, 1)
    tries = 0
    while not bring(s3, "b", FROM, TO, time_for(3)):
        tries += 1
        assert tries < 20, s3.copied
    parts = [one for one in s3.copied if one.startswith(f"{TO}{name} ")]
    assert len(parts) == len(set(parts)) == 10
    assert s3.objects[f"{TO}{name}"] == body
    assert s3.uploads == {}
    # Nothing else lies in the checkpoint's own directory.
    assert {key for key in s3.objects if key.startswith(TO)} == {
        f"{TO}{one}" for one in (*BODIES, "manifest.json")
    }


def time_for(looks: int) -> Callable[[], bool]:
    left = iter([True] * looks)
    return lambda: next(left, False)
