"""What the agent asks of S3 beside uploads, against an S3; those are in test_agent_export.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3

AT = Location("data", "sync/c/run")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    client: Any = boto3.client("s3", "us-east-1")
    client.create_bucket(Bucket="data")
    yield S3("us-east-1")
    server.stop()


@pytest.mark.real
def test_s3_copies_lists_and_deletes(s3: S3) -> None:
    names = ["a", "b & c/d", "e=f+g", "h"]
    for name in names:
        s3.put_bytes(AT.under(name), name.encode())
    s3.put_bytes(Location("data", "sync/c/run-2/other"), b"")
    assert list(s3.listed("data", "sync/c/run/")) == [f"sync/c/run/{name}" for name in names], (
        "two to a page"
    )
    s3.copy(AT.under("b & c/d"), AT.under("copy"))
    assert s3.get(AT.under("copy")) == b"b & c/d"
    s3.delete("data", [AT.under("copy").key, AT.under("b & c/d").key])
    s3.delete("data", [AT.under("copy").key])
    s3.delete("data", [])
    assert s3.get(AT.under("copy")) is None
    assert s3.get(AT.under("b & c/d")) is None
    assert s3.get(AT.under("a")) == b"a"
    with pytest.raises(Refused, match="404"):
        s3.copy(AT.under("nothing"), AT.under("copy"))
    assert list(s3.listed("data", "nothing/")) == []


def file(directory: Path, body: bytes) -> Path:
    path = directory / "file"
    path.write_bytes(body)
    return path
