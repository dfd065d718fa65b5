"""A cluster's configuration as its API takes it, and what the local cloud reads of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
HEAD_NODE = "HeadNode"
_NODE = re.compile(r"(?P<queue>[a-z][a-z0-9-]*)-(?P<kind>st|dy)-(?P<resource>[a-zA-Z0-9-]+)-\d+")


@dataclass(frozen=True)
class Script:
    """One step of OnNodeConfigured."""

    source: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Permissions:
    """What a node's role gets beside ParallelCluster's own: policies and buckets."""

    policies: tuple[str, ...]
    #: (bucket, key, whether it may write)
    access: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True)
class Queue:
    """A queue with its one compute resource."""

    name: str
    resource: str
    types: tuple[str, ...]
    minimum: int
    maximum: int
    market: str
    scripts: tuple[Script, ...]
    permissions: Permissions
    settings: Mapping[str, str]

    @property
    def spot(self) -> bool:
        return self.market == "SPOT"

    def static(self) -> list[str]:
        return [f"{self.name}-st-{self.resource}-{n + 1}" for n in range(self.minimum)]

    def dynamic(self) -> list[str]:
        count = self.maximum - self.minimum
        return [f"{self.name}-dy-{self.resource}-{n + 1}" for n in range(count)]


@dataclass(frozen=True)
class Pool:
    """Login nodes."""

    name: str
    instance_type: str
    count: int
    scripts: tuple[Script, ...]
    permissions: Permissions


@dataclass(frozen=True)
class MadeFilesystem:
    """FSx for Lustre that is made with the cluster, in FSx's own words."""

    name: str
    request: Json
    #: Of the whole filesystem; links of its directories are not made here.
    links: tuple[Json, ...]
    keep: bool


@dataclass(frozen=True)
class Configuration:
    """Of one cluster."""

    text: str
    head_type: str
    head_scripts: tuple[Script, ...]
    #: What the head node runs after an update.
    updated_scripts: tuple[Script, ...]
    head_permissions: Permissions
    queues: tuple[Queue, ...]
    pools: tuple[Pool, ...]
    #: (name, mount path), the first one first.
    storage: tuple[tuple[str, str], ...]
    #: The id of the first one, where it exists already.
    filesystem: str
    made: MadeFilesystem | None
    slurm_settings: Mapping[str, str]
    idle_minutes: float | None
    tags: Mapping[str, str]
    boundary: str

    @property
    def made_first(self) -> bool:
        """Whether it is the one that nodes have here: the first one."""
        return self.made is not None and self.storage[0][0] == self.made.name

    def queue(self, name: str) -> Queue:
        return next(queue for queue in self.queues if queue.name == name)

    def queue_of(self, node: str) -> Queue:
        """Whose node this is, by its name in Slurm."""
        found = _NODE.fullmatch(node)
        assert found, node
        return self.queue(found["queue"])

    def node_names(self) -> Iterator[str]:
        for queue in self.queues:
            yield from queue.static()
            yield from queue.dynamic()


def is_static(node: str) -> bool:
    found = _NODE.fullmatch(node)
    return bool(found) and found is not None and found["kind"] == "st"


def read(text: str, document: Json) -> Configuration:
    """Of a document that was judged (judging.py)."""
    head, scheduling = document["HeadNode"], document["Scheduling"]
    slurm = scheduling.get("SlurmSettings") or {}
    storage = document.get("SharedStorage") or []
    settings: dict[str, str] = {}
    for entry in slurm.get("CustomSlurmSettings") or []:
        settings |= {key: str(value) for key, value in entry.items()}
    return Configuration(
        text=text,
        head_type=head["InstanceType"],
        head_scripts=_scripts(head),
        updated_scripts=_scripts(head, "OnNodeUpdated"),
        head_permissions=_permissions(head),
        queues=tuple(map(_queue, scheduling["SlurmQueues"])),
        pools=tuple(map(_pool, (document.get("LoginNodes") or {}).get("Pools") or [])),
        storage=tuple((one["Name"], one["MountDir"]) for one in storage),
        filesystem=_existing(storage[0]) if storage else "",
        made=_made(storage, scheduling["SlurmQueues"][0]),
        slurm_settings=settings,
        idle_minutes=slurm.get("ScaledownIdletime"),
        tags={tag["Key"]: tag["Value"] for tag in document.get("Tags") or []},
        boundary=str((document.get("Iam") or {}).get("PermissionsBoundary") or ""),
    )


def _queue(given: Json) -> Queue:
    (nodes,) = given["ComputeResources"]
    types = [one["InstanceType"] for one in nodes.get("Instances") or []]
    return Queue(
        name=given["Name"],
        resource=nodes["Name"],
        types=tuple(types or [nodes["InstanceType"]]),
        minimum=int(nodes.get("MinCount", 0)),
        maximum=int(nodes.get("MaxCount", 10)),
        market=given.get("CapacityType", "ONDEMAND"),
        scripts=_scripts(given),
        permissions=_permissions(given),
        settings={
            key: str(value) for key, value in (given.get("CustomSlurmSettings") or {}).items()
        },
    )


def _pool(given: Json) -> Pool:
    return Pool(
        given["Name"],
        given["InstanceType"],
        int(given.get("Count", 1)),
        _scripts(given),
        _permissions(given),
    )


def _scripts(part: Json, action: str = "OnNodeConfigured") -> tuple[Script, ...]:
    given = (part.get("CustomActions") or {}).get(action) or {}
    steps: Sequence[Json] = given.get("Sequence") or ([given] if given else [])
    return tuple(Script(step["Script"], tuple(map(str, step.get("Args") or []))) for step in steps)


def _permissions(part: Json) -> Permissions:
    iam = part.get("Iam") or {}
    return Permissions(
        tuple(one["Policy"] for one in iam.get("AdditionalIamPolicies") or []),
        tuple(
            (one["BucketName"], one.get("KeyName", "*"), bool(one.get("EnableWriteAccess")))
            for one in iam.get("S3Access") or []
        ),
    )


def _made(storage: Sequence[Json], queue: Json) -> MadeFilesystem | None:
    """CloudFormation asks FSx for it, in the first subnet of the queues."""
    for one in storage:
        settings = one.get("FsxLustreSettings")
        if settings is None or settings.get("FileSystemId"):
            continue
        lustre = {
            "DeploymentType": settings.get("DeploymentType", "SCRATCH_2"),
            "PerUnitStorageThroughput": settings.get("PerUnitStorageThroughput"),
        }
        request = {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": settings["StorageCapacity"],
            "StorageType": settings.get("StorageType", "SSD"),
            "SubnetIds": list(queue["Networking"]["SubnetIds"])[:1],
            "LustreConfiguration": {k: v for k, v in lustre.items() if v is not None},
        }
        links = tuple(map(_link, settings.get("DataRepositoryAssociations") or []))
        whole = tuple(link for link in links if link["FileSystemPath"] == "/")
        return MadeFilesystem(
            one["Name"], request, whole, settings.get("DeletionPolicy") == "Retain"
        )
    return None


def _link(given: Json) -> Json:
    policies = {
        name: {"Events": given[name]}
        for name in ("AutoImportPolicy", "AutoExportPolicy")
        if given.get(name)
    }
    wanted = ("FileSystemPath", "DataRepositoryPath", "BatchImportMetaDataOnCreate")
    return {**{key: given[key] for key in wanted if key in given}, "S3": policies}


def _existing(storage: Json) -> str:
    for settings, key in (
        ("FsxLustreSettings", "FileSystemId"),
        ("EfsSettings", "FileSystemId"),
        ("EbsSettings", "VolumeId"),
    ):
        if found := (storage.get(settings) or {}).get(key):
            return str(found)
    return ""
