"""What nodes share, in ParallelCluster's words."""

from __future__ import annotations

from typing import Any

from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.parallelcluster_storage import (
    EbsStorage,
    EfsStorage,
    FsxStorage,
    Repository,
    SharedStorage,
)


def shared_storage(storage: SharedStorage) -> dict[str, Any]:
    """One entry of SharedStorage."""
    made: dict[str, Any] = {"Name": storage.name, "MountDir": storage.mount_path}
    if storage.fsx is not None:
        return made | {"StorageType": "FsxLustre", "FsxLustreSettings": _fsx(storage.fsx)}
    if storage.efs is not None:
        return made | {"StorageType": "Efs", "EfsSettings": _efs(storage.efs)}
    assert storage.ebs is not None
    return made | {"StorageType": "Ebs", "EbsSettings": _ebs(storage.ebs)}


def _fsx(fsx: FsxStorage) -> dict[str, Any]:
    if fsx.file_system_id is not None:
        return {"FileSystemId": fsx.file_system_id}
    made = {
        "StorageCapacity": fsx.capacity_gib,
        "DeploymentType": fsx.deployment,
        "StorageType": fsx.disks,
        "PerUnitStorageThroughput": fsx.throughput,
        "DataCompressionType": "LZ4" if fsx.compress else None,
        "ImportPath": fsx.import_path,
        "ExportPath": fsx.export_path,
        "AutoImportPolicy": fsx.import_changes,
        "DeletionPolicy": _deletion(fsx.keep),
        "DataRepositoryAssociations": [
            *([_archive(fsx.archive)] if fsx.archive else []),
            *(_association(at, one) for at, one in enumerate(fsx.repositories)),
        ],
    }
    return {key: value for key, value in made.items() if value not in (None, [])}


def _archive(source: str) -> dict[str, Any]:
    """The whole filesystem. FSx exports nothing by itself: it could not run a task beside that."""
    return {
        "Name": "archive",
        "DataRepositoryPath": str(S3Prefix.of(source)),
        "FileSystemPath": "/",
        "BatchImportMetaDataOnCreate": True,
        "AutoImportPolicy": ["NEW", "CHANGED"],
    }


def _association(at: int, repository: Repository) -> dict[str, Any]:
    made = {
        "Name": f"repository-{at}",
        "DataRepositoryPath": repository.source,
        "FileSystemPath": repository.path,
        "BatchImportMetaDataOnCreate": repository.import_at_creation,
        "AutoImportPolicy": [change.upper() for change in repository.import_changes],
        "AutoExportPolicy": [change.upper() for change in repository.export_changes],
    }
    return {key: value for key, value in made.items() if value != []}


def _efs(efs: EfsStorage) -> dict[str, Any]:
    if efs.file_system_id is not None:
        return {"FileSystemId": efs.file_system_id}
    return {"Encrypted": efs.encrypted, "DeletionPolicy": _deletion(efs.keep)}


def _ebs(ebs: EbsStorage) -> dict[str, Any]:
    if ebs.volume_id is not None:
        return {"VolumeId": ebs.volume_id}
    return {
        "Size": ebs.size_gib,
        "VolumeType": ebs.volume_type,
        "Encrypted": True,
        "DeletionPolicy": _deletion(ebs.keep),
    }


def _deletion(keep: bool) -> str:
    return "Retain" if keep else "Delete"
