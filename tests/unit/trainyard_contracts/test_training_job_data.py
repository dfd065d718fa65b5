"""Data, checkpoints and metrics of a training job are refused where AWS could not take them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from trainyard.http.problems import invalid_request
from trainyard_contracts.training_job_data import (
    Channel,
    Checkpoints,
    FileSystemData,
    InstanceGroup,
    JobNetwork,
    MetricDefinition,
    S3Data,
)

S3 = {"uri": "s3://sm-bucket/data"}
FILES = {"fileSystemId": "fs-01234567", "directoryPath": "/abcd1234"}
SECURITY = {"securityGroupIds": ["sg-0a1b2c3d"]}


@pytest.mark.parametrize(
    ("model", "fields", "words"),
    [
        (Channel, {"name": "a"}, "s3: give either s3 or fileSystem"),
        (Channel, {"name": "a", "s3": S3, "fileSystem": FILES}, "s3: give either"),
        (Channel, {"name": "a b", "s3": S3}, "name: must be 1 to 64 letters"),
        (Channel, {"name": "a", "s3": {"uri": "/data"}}, "s3.uri: must be s3://BUCKET/KEY"),
        (Channel, {"name": "a", "s3": S3, "contentType": ""}, "contentType: must be a MIME type"),
        (Channel, {"name": "a", "s3": S3, "inputMode": "Copy"}, "inputMode: must be one of"),
        (
            Channel,
            {"name": "a", "fileSystem": FILES, "inputMode": "File"},
            "inputMode: is for data in S3 only",
        ),
        (
            Channel,
            {"name": "a", "fileSystem": FILES, "shuffleSeed": 0},
            "shuffleSeed: is for data in S3 only",
        ),
        (S3Data, {**S3, "attributeNames": ["label"]}, "attributeNames: are for dataType"),
        (S3Data, {**S3, "distribution": "Random"}, "distribution: must be one of"),
        (FileSystemData, {**FILES, "fileSystemId": "fs-xyz"}, "fileSystemId: must be the id"),
        (FileSystemData, {**FILES, "directoryPath": "data"}, "directoryPath: must be an absolute"),
        (FileSystemData, {**FILES, "type": "NFS"}, "type: must be one of 'FSxLustre' or 'EFS'"),
        (JobNetwork, {"subnetIds": [], **SECURITY}, "subnetIds: must have at least 1 item"),
        (JobNetwork, {"subnetIds": ["vpc-1"], **SECURITY}, "subnetIds.0: must be the id of a"),
        (
            JobNetwork,
            {"subnetIds": ["subnet-1"], "securityGroupIds": ["sg-1"] * 6},
            "securityGroupIds: must have at most 5 items",
        ),
        (Checkpoints, {"s3Uri": "s3://a"}, "s3Uri: must be s3://BUCKET/KEY"),
        (Checkpoints, {"s3Uri": "s3://abc", "localPath": "ck"}, "localPath: must be an absolute"),
        (MetricDefinition, {"name": "", "regex": "x"}, "name: must be the name of a metric"),
        (MetricDefinition, {"name": "a", "regex": "x" * 501}, "regex: must be a regular"),
        (
            InstanceGroup,
            {"name": "a\nb", "instanceType": "ml.c5.xlarge", "instanceCount": 1},
            "name: must be the name of an instance group",
        ),
    ],
)
def test_what_aws_could_not_take_is_refused_with_its_field(
    model: type[BaseModel], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(fields)
    first = invalid_request(refused.value.errors()).errors[0]
    assert f"{first.field}: {first.message}".startswith(words)


def test_data_are_whole_on_each_node_unless_said_otherwise() -> None:
    assert S3Data.model_validate(S3).distribution == "FullyReplicated"


def test_a_filesystem_is_read_only_unless_said_otherwise() -> None:
    assert FileSystemData.model_validate(FILES).access_mode == "ro"
