"""What a local filesystem is, its link to a bucket and its tasks; changed under one lock."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainyard_local.local_cloud import LocalCloud

#: Below the state directory, by the id of the file system (training_jobs.inputs).
FILESYSTEMS = "fsx"
RUNNING = ("PENDING", "EXECUTING", "CANCELING")


def now() -> float:
    """As the protocol has moments."""
    return datetime.now(timezone.utc).timestamp()


def new_id(prefix: str) -> str:
    return f"{prefix}-0{secrets.token_hex(8)}"


@dataclass
class Resource:
    """What has an ARN, a state and tags."""

    cloud: LocalCloud
    request: dict[str, Any]
    id: str
    lifecycle: str = "CREATING"
    failure: str = ""
    created_at: float = field(default_factory=now)
    tags: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.tags = {tag["Key"]: tag["Value"] for tag in self.request.get("Tags") or []}

    def named(self, kind: str) -> str:
        return f"arn:aws:fsx:{self.cloud.region}:{self.cloud.account_id}:{kind}/{self.id}"

    def common(self, arn: str) -> dict[str, Any]:
        failed = {"FailureDetails": {"Message": self.failure}} if self.failure else {}
        return {
            "ResourceARN": arn,
            "Lifecycle": self.lifecycle,
            "CreationTime": self.created_at,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            **failed,
        }


@dataclass
class Filesystem(Resource):
    mount_name: str = field(default_factory=lambda: secrets.token_hex(4))
    network: str = ""
    #: Of each path: modification time and size when it was exported or imported.
    exported: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        return self.named("file-system")

    @property
    def dns_name(self) -> str:
        return f"{self.id}.fsx.{self.cloud.region}.amazonaws.com"

    @property
    def directory(self) -> Path:
        return self.cloud.state_dir / FILESYSTEMS / self.id

    @property
    def link(self) -> Path:
        """By this name nodes find the directory; they know DNS name and mount name only."""
        name = f"{self.dns_name}/{self.mount_name}"
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        return self.cloud.state_dir / FILESYSTEMS / digest

    def described(self) -> dict[str, Any]:
        lustre = dict(self.request.get("LustreConfiguration") or {})
        return {
            **self.common(self.arn),
            "OwnerId": self.cloud.account_id,
            "FileSystemId": self.id,
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": self.request.get("FileSystemTypeVersion", "2.10"),
            "StorageCapacity": self.request["StorageCapacity"],
            "StorageType": self.request.get("StorageType", "SSD"),
            "SubnetIds": self.request["SubnetIds"],
            "VpcId": self.network,
            "DNSName": self.dns_name,
            "LustreConfiguration": {**lustre, "MountName": self.mount_name},
        }


@dataclass
class Association(Resource):
    #: The data repository's path, as FSx answers it: without a slash at its end.
    @property
    def repository(self) -> str:
        return str(self.request["DataRepositoryPath"]).rstrip("/")

    @property
    def filesystem(self) -> str:
        return str(self.request["FileSystemId"])

    @property
    def arn(self) -> str:
        kind = f"association/{self.filesystem}"
        return f"arn:aws:fsx:{self.cloud.region}:{self.cloud.account_id}:{kind}/{self.id}"

    @property
    def exports_itself(self) -> bool:
        policy = (self.request.get("S3") or {}).get("AutoExportPolicy") or {}
        return bool(policy.get("Events"))

    def updated(self) -> None:
        self.lifecycle = "AVAILABLE"

    def described(self) -> dict[str, Any]:
        return {
            **self.common(self.arn),
            "AssociationId": self.id,
            "FileSystemId": self.filesystem,
            "FileSystemPath": self.request.get("FileSystemPath", "/"),
            "DataRepositoryPath": self.request["DataRepositoryPath"],
            "BatchImportMetaDataOnCreate": bool(self.request.get("BatchImportMetaDataOnCreate")),
            "S3": self.request.get("S3") or {},
        }


@dataclass
class Task(Resource):
    ended_at: float | None = None
    done: int = 0
    failed: int = 0

    @property
    def filesystem(self) -> str:
        return str(self.request["FileSystemId"])

    @property
    def arn(self) -> str:
        return self.named("task")

    def described(self) -> dict[str, Any]:
        status = {
            "TotalCount": self.done + self.failed,
            "SucceededCount": self.done,
            "FailedCount": self.failed,
        }
        return {
            **self.common(self.arn),
            "TaskId": self.id,
            "Type": self.request["Type"],
            "FileSystemId": self.filesystem,
            "Report": self.request.get("Report") or {"Enabled": False},
            "Status": status,
            **({"EndTime": self.ended_at} if self.ended_at is not None else {}),
        }
