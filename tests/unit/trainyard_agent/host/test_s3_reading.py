"""Objects of a bucket are listed page by page and read in parts, from an S3."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.copy_progress import Progress
from trainyard_agent.jobs.copying import Copy
from trainyard_contracts.inputs import S3Prefix

pytestmark = pytest.mark.real
BUCKET, STEP = "sagemaker-corpus", 5 * 2**20
LARGE = os.urandom(STEP + 2**20)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> S3:
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y",
        "TRAINYARD_ROOT": str(tmp_path / "root"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="v1/a+b ä.txt", Body=b"first")
    client.put_object(Bucket=BUCKET, Key="v1/empty", Body=b"")
    _in_parts(client, "v1/large")
    return S3("us-east-1")


def _in_parts(client: Any, key: str) -> None:
    upload = {"Bucket": BUCKET, "Key": key}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(
                **upload, PartNumber=number, Body=LARGE[start : start + STEP]
            )["ETag"],
        }
        for number, start in enumerate(range(0, len(LARGE), STEP), 1)
    ]
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def test_a_listing_has_names_sizes_and_etags_and_a_bucket_that_is_not_there_has_none(
    s3: S3,
) -> None:
    page = s3.list_page(BUCKET, "v1/")
    assert page is not None
    found, more = page
    assert [one.key for one in found] == ["v1/a+b ä.txt", "v1/empty", "v1/large"]
    assert [one.bytes for one in found] == [5, 0, len(LARGE)]
    assert found[2].etag.endswith("-2")
    assert more == ""
    assert s3.list_page(BUCKET, "v2/") == ([], "")
    assert s3.list_page("sagemaker-nowhere", "") is None


def test_a_part_is_read_of_the_very_object_that_was_listed(s3: S3) -> None:
    at = Location(BUCKET, "v1/large")
    assert (s3.part_bytes(at, 1), s3.part_bytes(at, 2)) == (STEP, 2**20)
    page = s3.list_page(BUCKET, "v1/large")
    assert page is not None
    into = io.BytesIO()
    assert s3.get_range(at, page[0][0].etag, 3, 7, into)
    assert into.getvalue() == LARGE[3:10]
    with pytest.raises(Refused) as refused:
        s3.get_range(at, "0" * 32, 3, 7, into)
    assert refused.value.status == 412
    assert not s3.get_range(Location(BUCKET, "v1/none"), "0" * 32, 0, 1, into)


def test_all_of_a_prefix_is_copied(s3: S3, tmp_path: Path) -> None:
    source = S3Prefix.of(f"s3://{BUCKET}/v1")
    copy = Copy(s3, source, tmp_path / "stage", "inputs.0.source", Progress())
    assert copy.run().objects == 3
    assert (copy.whole / "large").read_bytes() == LARGE
    assert (copy.whole / "a+b ä.txt").read_bytes() == b"first"
    assert (copy.whole / "empty").read_bytes() == b""
