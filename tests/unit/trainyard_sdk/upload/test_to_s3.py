"""Files go into a bucket of the user's own; only what is not there with the same bytes is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from trainyard_sdk.problems import InvalidInput, Refused, SdkError
from trainyard_sdk.upload import to_s3
from trainyard_sdk.upload.scan import scan
from trainyard_sdk.upload.to_s3 import Destination, etag, send_to_s3

WHERE = Destination("corpus", "tokens/v1/")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="corpus")
        yield client


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    (directory / "train").mkdir(parents=True)
    (directory / "train/a.txt").write_text("first")
    (directory / "empty").write_bytes(b"")
    return directory


def sent(s3: Any, root: Path) -> list[str]:
    return send_to_s3(s3, scan(root), WHERE, lambda done, total: None)


def test_all_files_go_up_as_they_are_and_again_only_what_changed(s3: Any, root: Path) -> None:
    s3.put_object(Bucket="corpus", Key="tokens/v1/somebody-elses", Body=b"x")
    assert sent(s3, root) == ["empty", "train/a.txt"]
    body = s3.get_object(Bucket="corpus", Key="tokens/v1/train/a.txt")["Body"].read()
    assert body == b"first"
    assert sent(s3, root) == []
    same_size_and_older = root / "train/a.txt"
    same_size_and_older.write_text("other")
    os.utime(same_size_and_older, (1, 1))
    assert sent(s3, root) == ["train/a.txt"]
    assert len(s3.list_objects_v2(Bucket="corpus")["Contents"]) == 3


@pytest.mark.parametrize("extra", [0, 1, 12 * 1024 * 1024])
def test_the_etag_of_what_came_in_parts_is_known(
    s3: Any, root: Path, monkeypatch: pytest.MonkeyPatch, extra: int
) -> None:
    part = 6 * 1024 * 1024  # S3 takes no smaller ones than 5 MiB
    monkeypatch.setattr(to_s3, "PART_BYTES", part)
    (root / "large").write_bytes(os.urandom(part + extra))
    assert "large" in sent(s3, root)
    seen = s3.head_object(Bucket="corpus", Key="tokens/v1/large")["ETag"].strip('"')
    assert seen == etag(root / "large")
    assert ("-" in seen) == bool(extra)
    assert sent(s3, root) == []


def test_a_file_that_changes_all_the_time_is_named(
    s3: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = to_s3._sent

    def writes_on(*given: Any) -> Any:
        with (root / "train/a.txt").open("a") as stream:
            stream.write("more")
        return real(*given)

    monkeypatch.setattr(to_s3, "_sent", writes_on)
    with pytest.raises(InvalidInput, match=r"train/a\.txt' changed in each of 3 tries"):
        sent(s3, root)


def test_a_bucket_that_is_not_there_is_refused_with_its_name(s3: Any, root: Path) -> None:
    with pytest.raises(Refused, match="s3://nowhere/x/") as refused:
        send_to_s3(s3, scan(root), Destination("nowhere", "x/"), lambda done, total: None)
    assert refused.value.next_step == "Correct the bucket's name"


def test_a_right_that_is_missing_is_asked_for(
    s3: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutObject")

    def refuses(*given: Any) -> Any:
        raise denied

    monkeypatch.setattr(to_s3, "_sent", refuses)
    with pytest.raises(Refused) as refused:
        sent(s3, root)
    assert "s3:PutObject" in refused.value.next_step


def test_a_file_that_vanishes_is_an_error_that_says_how_to_go_on(s3: Any, root: Path) -> None:
    found = scan(root)
    (root / "train/a.txt").unlink()
    with pytest.raises(SdkError) as stopped:
        send_to_s3(s3, found, WHERE, lambda done, total: None)
    assert "The same command sends only the rest" in stopped.value.next_step


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix"),
    [
        ("s3://corpus", "corpus", ""),
        ("s3://corpus/", "corpus", ""),
        ("s3://corpus/a/b", "corpus", "a/b/"),
        ("s3://corpus/a/b/", "corpus", "a/b/"),
    ],
)
def test_a_place_in_s3(uri: str, bucket: str, prefix: str) -> None:
    assert Destination.of(uri) == Destination(bucket, prefix)


@pytest.mark.parametrize("uri", ["s3://", "s3://UPPER/x", "s3://b/../c", "s3://b/a//b", "s3://b/ü"])
def test_what_is_no_place_in_s3_is_refused_with_an_example(uri: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Destination.of(uri)
    assert "s3://my-corpus/tokens/v1/" in refused.value.next_step
