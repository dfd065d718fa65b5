"""What is shared, in ParallelCluster's words."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.backends.parallelcluster.storage import shared_storage
from trainyard_contracts.parallelcluster_storage import SharedStorage

Json = dict[str, Any]


def made(**given: Any) -> Json:
    read = SharedStorage.model_validate({"name": "s", "mountPath": "/s", **given})
    entry = shared_storage(read)
    assert (entry.pop("Name"), entry.pop("MountDir")) == ("s", "/s")
    return entry


@pytest.mark.parametrize(
    ("given", "kind", "settings"),
    [
        (
            {"fsx": {"fileSystemId": "fs-0123456789abcdef0"}},
            "FsxLustre",
            {"FileSystemId": "fs-0123456789abcdef0"},
        ),
        ({"efs": {"fileSystemId": "fs-01234567"}}, "Efs", {"FileSystemId": "fs-01234567"}),
        ({"efs": {}}, "Efs", {"Encrypted": True, "DeletionPolicy": "Delete"}),
        ({"ebs": {"volumeId": "vol-01234567"}}, "Ebs", {"VolumeId": "vol-01234567"}),
        (
            {"ebs": {"sizeGib": 50, "keep": True}},
            "Ebs",
            {"Size": 50, "VolumeType": "gp3", "Encrypted": True, "DeletionPolicy": "Retain"},
        ),
        (
            {"fsx": {"capacityGib": 1200, "importPath": "s3://bkt/x", "importChanges": "NEW"}},
            "FsxLustre",
            {
                "StorageCapacity": 1200,
                "DeploymentType": "SCRATCH_2",
                "StorageType": "SSD",
                "ImportPath": "s3://bkt/x",
                "AutoImportPolicy": "NEW",
                "DeletionPolicy": "Delete",
            },
        ),
    ],
)
def test_a_storage_has_the_settings_of_its_kind(given: Json, kind: str, settings: Json) -> None:
    assert made(**given) == {"StorageType": kind, f"{kind}Settings": settings}


def test_an_archive_is_the_one_repository_of_the_whole_filesystem() -> None:
    """FSx exports nothing by itself, since it runs no export task beside that."""
    settings = made(fsx={"capacityGib": 1200, "archive": "s3://bkt/lab"})["FsxLustreSettings"]
    assert settings["DataRepositoryAssociations"] == [
        {
            "Name": "archive",
            "DataRepositoryPath": "s3://bkt/lab/",
            "FileSystemPath": "/",
            "BatchImportMetaDataOnCreate": True,
            "AutoImportPolicy": ["NEW", "CHANGED"],
        }
    ]


def test_data_repositories_are_named_by_their_place() -> None:
    repositories = [
        {"source": "s3://bkt/in/", "path": "/in"},
        {"source": "s3://bkt/out/", "path": "/out", "importChanges": [], "exportChanges": ["new"]},
    ]
    settings = made(fsx={"capacityGib": 1200, "repositories": repositories})["FsxLustreSettings"]
    assert settings["DataRepositoryAssociations"] == [
        {
            "Name": "repository-0",
            "DataRepositoryPath": "s3://bkt/in/",
            "FileSystemPath": "/in",
            "BatchImportMetaDataOnCreate": True,
            "AutoImportPolicy": ["NEW", "CHANGED", "DELETED"],
        },
        {
            "Name": "repository-1",
            "DataRepositoryPath": "s3://bkt/out/",
            "FileSystemPath": "/out",
            "BatchImportMetaDataOnCreate": True,
            "AutoExportPolicy": ["NEW"],
        },
    ]
