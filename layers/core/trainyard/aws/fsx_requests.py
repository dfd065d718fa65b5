"""The exact requests to FSx for Lustre, made of a filesystem's record and nothing else."""

from __future__ import annotations

from typing import Any

from trainyard.domain.filesystem_records import Filesystem
from trainyard_contracts.filesystems import Change
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.places import FILESYSTEM_TAG, RECORD_TAG, STAGE_TAG

Request = dict[str, Any]
#: Links to repositories and PERSISTENT_2 need 2.12 at least; FSx recommends 2.15 for new ones.
LUSTRE_VERSION = "2.15"


def create(filesystem: Filesystem, stage: str) -> Request:
    """CreateFileSystem."""
    spec = filesystem.spec
    lustre: Request = {
        "DeploymentType": spec.deployment,
        "DataCompressionType": "LZ4" if spec.compress else "NONE",
    }
    if spec.unit_throughput is not None:
        lustre["PerUnitStorageThroughput"] = spec.unit_throughput
    return {
        "ClientRequestToken": filesystem.token(stage, "create"),
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": LUSTRE_VERSION,
        "StorageCapacity": spec.storage_gib,
        "StorageType": "SSD",
        "SubnetIds": [spec.subnet_id],
        "SecurityGroupIds": list(spec.security_group_ids or []),
        "LustreConfiguration": lustre,
        "Tags": tags(filesystem, stage),
    }


def link(filesystem: Filesystem, stage: str, fsx_id: str) -> Request:
    """CreateDataRepositoryAssociation, of the whole filesystem."""
    repository = filesystem.spec.repository
    assert repository is not None
    return {
        "ClientRequestToken": filesystem.token(stage, "link"),
        "FileSystemId": fsx_id,
        "FileSystemPath": "/",
        "DataRepositoryPath": str(S3Prefix.of(repository.source)),
        "BatchImportMetaDataOnCreate": True,
        "S3": _policies(repository.import_changes, repository.export_changes),
        "Tags": tags(filesystem, stage),
    }


def update_link(filesystem: Filesystem, exports_itself: bool, token: str) -> Request:
    """UpdateDataRepositoryAssociation: the policies of both ways, since it replaces both."""
    repository = filesystem.spec.repository
    assert repository is not None
    exported = repository.export_changes if exports_itself else []
    return {
        "ClientRequestToken": token,
        "AssociationId": filesystem.association_id,
        "S3": _policies(repository.import_changes, exported),
    }


def export(filesystem: Filesystem, stage: str, number: int) -> Request:
    """CreateDataRepositoryTask: of all that changed since the last one, with a list of failures."""
    return {
        "ClientRequestToken": filesystem.token(stage, f"export-{number}"),
        "Type": "EXPORT_TO_REPOSITORY",
        "FileSystemId": filesystem.fsx_id,
        "Report": {
            "Enabled": True,
            "Path": filesystem.report_path,
            "Format": "REPORT_CSV_20191124",
            "Scope": "FAILED_FILES_ONLY",
        },
        "Tags": tags(filesystem, stage),
    }


def delete(filesystem: Filesystem, stage: str) -> Request:
    """DeleteFileSystem."""
    return {
        "ClientRequestToken": filesystem.token(stage, "delete"),
        "FileSystemId": filesystem.fsx_id,
    }


def tags(filesystem: Filesystem, stage: str) -> list[dict[str, str]]:
    ours = {STAGE_TAG: stage, FILESYSTEM_TAG: filesystem.name, RECORD_TAG: filesystem.mark}
    given = {**filesystem.spec.tags, **ours}
    return [{"Key": key, "Value": value} for key, value in given.items()]


def _policies(imported: list[Change], exported: list[Change]) -> Request:
    return {
        "AutoImportPolicy": {"Events": [change.upper() for change in imported]},
        "AutoExportPolicy": {"Events": [change.upper() for change in exported]},
    }
