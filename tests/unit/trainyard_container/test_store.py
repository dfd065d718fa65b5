"""S3 of a container: checksums, parts, what is missing, and what passes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.support.s3_client import S3Client, refusal

from trainyard_container import store
from trainyard_container.store import Missing, Store, StoreFailed


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(store, "_LAST_PAUSE", 0.001)


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def file(tmp_path: Path, body: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(body)
    return path


def test_a_file_goes_up_and_comes_down_with_its_hash(tmp_path: Path) -> None:
    client = S3Client()
    bucket = Store(client, "b")
    bucket.send(file(tmp_path, b"weights"), "k", sha256(b"weights"))
    assert bucket.fetch("k", tmp_path / "deep/copy") == sha256(b"weights")
    assert (tmp_path / "deep/copy").read_bytes() == b"weights"
    assert bucket.sizes("") == {"k": 7}


def test_a_large_file_goes_up_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PART_BYTES", 10)
    client, body = S3Client(), bytes(range(35))
    Store(client, "b").send(file(tmp_path, body), "k", sha256(body))
    assert client.objects == {"k": body}
    # An export copies the same parts, and S3 shows no SHA-256 of the whole.
    assert client.beside == {"k": {"sha256": sha256(body), "part-bytes": "10"}}


@pytest.mark.parametrize("part", [10, 1000])
def test_a_file_that_changed_since_it_was_hashed_is_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(store, "PART_BYTES", part)
    client = S3Client()
    with pytest.raises(StoreFailed, match="changed after it was hashed"):
        Store(client, "b").send(file(tmp_path, b"x" * 30), "k", sha256(b"y" * 30))
    assert (client.objects, client.open_uploads) == ({}, 0)


def test_what_is_missing_is_not_what_cannot_be_read(tmp_path: Path) -> None:
    client = S3Client()
    bucket = Store(client, "b", patience_seconds=0.02)
    with pytest.raises(Missing):
        bucket.read("nowhere")

    def unavailable(_name: str, _key: str) -> None:
        raise refusal("503")

    client.before = unavailable
    with pytest.raises(StoreFailed, match="s3://b/k"):
        bucket.read("k")


def test_what_passes_is_waited_for_and_a_denial_is_not(tmp_path: Path) -> None:
    client = S3Client()
    client.objects["k"] = b"there"
    answers = ["SlowDown", "503", "InternalError"]

    def some(_name: str, _key: str) -> None:
        if answers:
            raise refusal(answers.pop())

    client.before = some
    bucket = Store(client, "b", patience_seconds=60)
    assert bucket.read("k") == b"there"
    answers.append("AccessDenied")
    with pytest.raises(StoreFailed, match="AccessDenied"):
        bucket.read("k")
