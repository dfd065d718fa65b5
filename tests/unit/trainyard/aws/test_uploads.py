"""A URL of an upload fits one object of one hash and size, in every region and the local cloud."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.session
import pytest

from trainyard.aws import clients
from trainyard.aws.uploads import S3Uploads
from trainyard_contracts.trees import Pack

PART = Pack(sha256="ab" * 32, bytes=1234)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = botocore.session.Session()
    made.set_credentials("ASIAEXAMPLE", "secret", "token")
    monkeypatch.setattr(clients, "session", lambda: made)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    clients.client.cache_clear()
    yield made
    clients.client.cache_clear()


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "sagemaker-d.s3.amazonaws.com"),
        ("eu-north-1", "sagemaker-d.s3.eu-north-1.amazonaws.com"),
    ],
)
@pytest.mark.usefixtures("session")
def test_a_url_binds_hash_and_size_and_names_the_buckets_own_region(region: str, host: str) -> None:
    uploads = S3Uploads(clients.client("s3", region), "sagemaker-d")
    put = uploads.request(PART, seconds=600)
    url = urlsplit(put.url)
    given = parse_qs(url.query)
    assert (url.hostname, url.path) == (host, f"/uploads/{PART.sha256}")
    signed = set(given["X-Amz-SignedHeaders"][0].split(";"))
    assert signed == {"host", *put.headers} == {"host", "content-length", "x-amz-checksum-sha256"}
    assert given["X-Amz-Expires"] == ["600"]
    assert put.headers["content-length"] == "1234"


@pytest.mark.usefixtures("session")
def test_on_an_address_the_bucket_is_part_of_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4780")
    uploads = S3Uploads(clients.client("s3", "us-east-1"), "sagemaker-d")
    url = uploads.request(PART, seconds=600).url
    assert url.startswith(f"http://127.0.0.1:4780/sagemaker-d/uploads/{PART.sha256}?")
