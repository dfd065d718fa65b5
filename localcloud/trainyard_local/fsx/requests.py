"""FSx's rules for requests, and which parts of them the local cloud does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard_local.fsx.errors import (
    BadRequest,
    InvalidNetworkSettings,
    InvalidPerUnitStorageThroughput,
    NotDone,
)
from trainyard_local.sagemaker.model import input_shape, misfit

#: What is read of each operation's parameters, by the path of each; any other is refused.
_READ = {
    "CreateFileSystem": """
        ClientRequestToken FileSystemType FileSystemTypeVersion StorageCapacity StorageType
        SubnetIds SecurityGroupIds Tags LustreConfiguration LustreConfiguration.DeploymentType
        LustreConfiguration.PerUnitStorageThroughput LustreConfiguration.DataCompressionType
    """,
    "DescribeFileSystems": "FileSystemIds MaxResults NextToken",
    "DeleteFileSystem": "FileSystemId ClientRequestToken",
    "CreateDataRepositoryAssociation": """
        FileSystemId FileSystemPath DataRepositoryPath BatchImportMetaDataOnCreate S3
        S3.AutoImportPolicy S3.AutoImportPolicy.Events S3.AutoExportPolicy
        S3.AutoExportPolicy.Events ClientRequestToken Tags
    """,
    "UpdateDataRepositoryAssociation": """
        AssociationId ClientRequestToken S3 S3.AutoImportPolicy S3.AutoImportPolicy.Events
        S3.AutoExportPolicy S3.AutoExportPolicy.Events
    """,
    "DescribeDataRepositoryAssociations": "AssociationIds Filters MaxResults NextToken",
    "CreateDataRepositoryTask": """
        Type FileSystemId Report Report.Enabled Report.Path Report.Format Report.Scope
        ClientRequestToken Tags
    """,
    "DescribeDataRepositoryTasks": "TaskIds Filters MaxResults NextToken",
    "TagResource": "ResourceARN Tags",
}
OPERATIONS = frozenset(_READ)
#: FSx: PerUnitStorageThroughput of SSD.
_THROUGHPUT = {
    "PERSISTENT_1": (50, 100, 200),
    "PERSISTENT_2": (125, 250, 500, 1000),
    "SCRATCH_2": (None,),
}


def check(operation: str, params: Mapping[str, Any]) -> None:
    """Raise what FSx, or the local cloud, does not take."""
    if operation not in OPERATIONS:
        done = ", ".join(sorted(OPERATIONS))
        raise NotDone(f"the local cloud does not do fsx:{operation}; of fsx it does: {done}")
    if problem := misfit(input_shape(operation, "fsx"), params):
        raise BadRequest(problem)
    read = set(_READ[operation].split())
    if passed_over := sorted(set(_paths(params)) - read):
        raise NotDone(
            f"the local cloud does not do {', '.join(passed_over)} of fsx:{operation}; "
            f"it does: {', '.join(sorted(read))}"
        )


def _paths(params: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, value in params.items():
        found.append(f"{prefix}{name}")
        if isinstance(value, Mapping):
            found += _paths(value, f"{prefix}{name}.")
    return found


def check_filesystem(params: Mapping[str, Any]) -> None:
    """FSx's own rules for CreateFileSystem."""
    if params["FileSystemType"] != "LUSTRE":
        raise NotDone("the local cloud does not do file systems but those of Lustre")
    lustre = params.get("LustreConfiguration") or {}
    deployment = lustre.get("DeploymentType", "SCRATCH_1")
    if deployment not in _THROUGHPUT or params.get("StorageType", "SSD") != "SSD":
        raise NotDone(
            f"the local cloud does deployment types {', '.join(sorted(_THROUGHPUT))} on SSD"
        )
    size = params.get("StorageCapacity") or 0
    if size != 1200 and (size < 2400 or size % 2400):
        raise BadRequest(
            "Invalid storage capacity provided. Please provide a value of 1200 GiB, 2400 GiB, or "
            "an increment of 2400 GiB"
        )
    if lustre.get("PerUnitStorageThroughput") not in _THROUGHPUT[deployment]:
        raise InvalidPerUnitStorageThroughput(
            f"PerUnitStorageThroughput must be one of {_THROUGHPUT[deployment]} for {deployment}"
        )
    if len(params["SubnetIds"]) != 1:
        raise InvalidNetworkSettings("Exactly one subnet ID is required for Lustre file systems")


def check_report(params: Mapping[str, Any], repository: str) -> None:
    """A completion report must lie within the repository that the file system is linked to."""
    if params["Type"] != "EXPORT_TO_REPOSITORY":
        raise NotDone(
            f"the local cloud does not do tasks of type {params['Type']}; it does: "
            "EXPORT_TO_REPOSITORY"
        )
    report = params["Report"]
    if not report["Enabled"]:
        return
    if not all(report.get(name) for name in ("Path", "Format", "Scope")):
        raise BadRequest("Report.Path, Report.Format and Report.Scope are required")
    if not str(report["Path"]).startswith(repository):
        raise BadRequest(f"Report path must be within the linked data repository {repository}")
