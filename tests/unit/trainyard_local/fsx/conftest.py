"""FSx of a local cloud that does not run, with moto's S3 in place of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from moto import mock_aws
from tests.support.store_table import ENVIRONMENT

from trainyard_local.fsx import service
from trainyard_local.fsx.objects import Repository
from trainyard_local.fsx.service import Fsx, Settings
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.operations import access

BUCKET = "my-archive"


@pytest.fixture(scope="module")
def _s3() -> Iterator[Any]:
    """A client costs more than a test, so a module shares one."""
    with patch.dict(os.environ, ENVIRONMENT), mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


@pytest.fixture
def s3(_s3: Any) -> Any:
    """With an empty bucket."""
    for found in _s3.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        _s3.delete_object(Bucket=BUCKET, Key=found["Key"])
    return _s3


@pytest.fixture
def repository(s3: Any) -> Repository:
    return Repository(s3, BUCKET, "lab/")


@pytest.fixture
def fsx(tmp_path: Path, s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fsx]:
    def of(_: object, uri: str) -> Repository:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return Repository(s3, bucket, f"{prefix.strip('/')}/")

    monkeypatch.setattr(service.Repository, "of", of)
    made = Fsx(LocalCloud(tmp_path, 4780, access=access()), Settings(seconds=0.01))
    yield made
    made.close()
