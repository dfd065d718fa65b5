"""Which host gets which object of a channel, and where it lies there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainyard_local.training_jobs import inputs


def test_all_hosts_get_everything_or_each_its_share() -> None:
    keys = ["a", "b", "c"]
    assert inputs.shares({}, keys, 2) == [keys, keys]
    sharded = {"S3DataDistributionType": "ShardedByS3Key"}
    assert inputs.shares(sharded, keys, 2) == [["a", "c"], ["b"]]
    assert inputs.shares(sharded, ["a"], 2) == [["a"], []]


@pytest.mark.parametrize(
    ("prefix", "key", "file"),
    [
        ("data/train", "data/train/a/b.txt", "a/b.txt"),
        ("data/train/", "data/train/b.txt", "b.txt"),
        ("data/train.csv", "data/train.csv", "train.csv"),
        ("", "top.txt", "top.txt"),
    ],
)
def test_an_object_lies_in_its_channel_without_the_prefix(prefix: str, key: str, file: str) -> None:
    assert inputs.relative(prefix, key) == file


def lustre(directory: str, mode: str = "ro") -> dict[str, Any]:
    source = {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemAccessMode": mode,
        "FileSystemType": "FSxLustre",
        "DirectoryPath": directory,
    }
    return {
        "InputDataConfig": [
            {"ChannelName": "pages", "DataSource": {"FileSystemDataSource": source}},
            {"ChannelName": "s3", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/k"}}},
        ]
    }


def test_a_channel_of_a_file_system_is_mounted_from_the_clouds_own_directory(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "fsx" / "fs-0123456789abcdef0" / "corpus"
    directory.mkdir(parents=True)
    found = inputs.filesystems(lustre("/corpus", "rw"), tmp_path.resolve())
    assert found == [(str(directory.resolve()), "/opt/ml/input/data/pages", True)]
    assert inputs.sources(lustre("/corpus")) == [("s3", {"S3Uri": "s3://b/k"})]


@pytest.mark.parametrize("directory", ["/corpus", "/../.."])
def test_a_directory_that_is_not_there_fails_the_job_in_words(
    directory: str, tmp_path: Path
) -> None:
    with pytest.raises(inputs.InputFailed, match="ClientError: Unable to mount file system"):
        inputs.filesystems(lustre(directory), tmp_path)
