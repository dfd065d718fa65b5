"""Commands that docs/operations.md gives, run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer
from tests.support.repository import ROOT

OPERATIONS = ROOT / "docs/operations.md"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_the_bucket_goes_with_all_its_versions_and_delete_markers(endpoint: str) -> None:
    s3 = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test",
        aws_secret_access_key="test"
    )  # fmt: skip
    s3.create_bucket(Bucket="sagemaker-trainyard")
    s3.put_bucket_versioning(
        Bucket="sagemaker-trainyard", VersioningConfiguration={"Status": "Enabled"}
    )
    for number in range(3):
        s3.put_object(Bucket="sagemaker-trainyard", Key="runs/a", Body=str(number).encode())
    s3.delete_object(Bucket="sagemaker-trainyard", Key="runs/a")
    [command] = re.findall(
        r"^    (python -c .*\n.*object_versions.*) BUCKET$", OPERATIONS.read_text(), re.M
    )
    argv = [sys.executable, *shlex.split(command)[1:], "sagemaker-trainyard"]
    subprocess.run(
        argv, env={**os.environ, **KEYS, "AWS_ENDPOINT_URL": endpoint}, check=True, timeout=240
    )
    assert s3.list_buckets()["Buckets"] == []
