"""Judges a configuration as ParallelCluster's schema and validators do, as far as is known here.

What the local cloud does not do is refused by its name: else it would be passed over in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

Json = Mapping[str, Any]
#: A cluster here has so many ports.
MOST_NODES = 200
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{1,59}")
_PART_NAME = re.compile(r"[a-z][a-z0-9-]{0,24}")
#: Settings of Slurm that ParallelCluster keeps for itself.
DENIED = frozenset({
    "communicationparameters", "epilog", "grestypes", "launchparameters", "prolog",
    "reconfigflags", "resumefailprogram", "resumeprogram", "resumetimeout", "slurmctldhost",
    "slurmctldlogfile", "slurmctldparameters", "slurmdlogfile", "slurmuser", "suspendexcnodes",
    "suspendprogram", "suspendtime", "taskplugin", "treewidth",
})  # fmt: skip
ANY: Json = {}
_SCRIPT = {"Script": ANY, "Args": ANY}
_ACTIONS = {"OnNodeConfigured": {**_SCRIPT, "Sequence": [_SCRIPT]}}
_HEAD_ACTIONS = {**_ACTIONS, "OnNodeUpdated": _ACTIONS["OnNodeConfigured"]}
_IAM = {"AdditionalIamPolicies": ANY, "S3Access": ANY}
_RESOURCE = dict.fromkeys(
    [
        "Name", "MinCount", "MaxCount", "InstanceType", "Instances", "Efa", "SpotPrice",
        "DisableSimultaneousMultithreading", "HealthChecks", "CapacityReservationTarget",
    ],
    ANY,
)  # fmt: skip
#: What is read, or changes nothing here and is known to be so.
KNOWN: Json = {
    "Region": ANY,
    "Image": {"Os": ANY, "CustomAmi": ANY},
    "Imds": {"ImdsSupport": ANY},
    "HeadNode": {
        "InstanceType": ANY,
        "Networking": ANY,
        "LocalStorage": ANY,
        "Iam": _IAM,
        "Ssh": ANY,
        "Dcv": ANY,
        "CustomActions": _HEAD_ACTIONS,
    },
    "Scheduling": {
        "Scheduler": ANY,
        "SlurmSettings": {
            "QueueUpdateStrategy": ANY,
            "CustomSlurmSettings": ANY,
            "ScaledownIdletime": ANY,
        },
        "SlurmQueues": [
            {
                "Name": ANY,
                "CapacityType": ANY,
                "AllocationStrategy": ANY,
                "ComputeSettings": ANY,
                "ComputeResources": [_RESOURCE],
                "Networking": ANY,
                "Image": ANY,
                "Iam": _IAM,
                "CustomActions": _ACTIONS,
                "CustomSlurmSettings": ANY,
            }
        ],
    },
    "SharedStorage": ANY,
    "LoginNodes": {
        "Pools": [
            {
                "Name": ANY,
                "InstanceType": ANY,
                "Count": ANY,
                "Networking": ANY,
                "Iam": _IAM,
                "CustomActions": _ACTIONS,
            }
        ]
    },
    "Tags": ANY,
    "Iam": {"PermissionsBoundary": ANY},
    "CustomS3Bucket": ANY,
}


@dataclass(frozen=True)
class Finding:
    """One finding, as the API tells it."""

    type: str
    message: str
    level: str = "ERROR"

    def told(self) -> dict[str, str]:
        return {"level": self.level, "type": self.type, "message": self.message}


@dataclass(frozen=True)
class World:
    """What validators ask of AWS."""

    region: str
    has_policy: Callable[[str], bool]
    has_object: Callable[[str, str], bool]


class BadRequest(ValueError):
    """The request is refused with a sentence, before any validator ran."""


class Conflict(Exception):
    """Another operation is under way."""


def parsed(text: str, region: str) -> Json:
    """The document. Raises BadRequest."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadRequest(f"Configuration must be valid YAML: {error}") from None
    if not isinstance(document, dict):
        raise BadRequest("Configuration must be a valid base64-encoded YAML document")
    if document.get("Region", region) != region:
        raise BadRequest(
            f"region is set in both parameter and configuration and conflicts: {region}, "
            f"{document['Region']}"
        )
    return document


def findings(document: Json, world: World) -> list[Finding]:
    """What is wrong; the schema's findings alone, if there are any."""
    if shape := [*_unknown(document, KNOWN, ()), *_missing(document)]:
        return shape
    return [*_scheduling(document), *_permissions(document, world), *_scripts(document, world)]


def _unknown(given: Any, known: Any, path: tuple[Any, ...]) -> Iterator[Finding]:
    if known is ANY or known == {}:
        return
    if isinstance(known, list):
        for at, one in enumerate(given if isinstance(given, list) else []):
            yield from _unknown(one, known[0], (*path, at))
        return
    if not isinstance(given, dict):
        yield _schema(path, "Invalid input type.")
        return
    for key, value in given.items():
        if key not in known:
            yield _schema((*path, key), "Unknown field.")
        else:
            yield from _unknown(value, known[key], (*path, key))


def _missing(document: Json) -> Iterator[Finding]:
    wanted = (("Image", "Os"), ("HeadNode", "InstanceType"), ("Scheduling", "SlurmQueues"))
    for section, key in wanted:
        if not (document.get(section) or {}).get(key):
            yield _schema((section, key), "Missing data for required field.")
    for at, queue in enumerate((document.get("Scheduling") or {}).get("SlurmQueues") or []):
        resources = queue.get("ComputeResources") or []
        if len(resources) != 1:
            words = "The local cloud takes exactly one compute resource for each queue."
            yield _schema(("Scheduling", "SlurmQueues", at, "ComputeResources"), words)
        for number, nodes in enumerate(resources):
            if not nodes.get("Instances") and not nodes.get("InstanceType"):
                path = ("Scheduling", "SlurmQueues", at, "ComputeResources", number)
                yield _schema((*path, "InstanceType"), "Missing data for required field.")


def _schema(path: tuple[Any, ...], words: str) -> Finding:
    """The schema's words: a list of pairs, as Python prints it."""
    inner: Any = [words]
    for key in reversed(path[1:]):
        inner = {key: inner}
    return Finding("ConfigSchemaValidator", str([(path[0] if path else "_schema", inner)]))


def _scheduling(document: Json) -> Iterator[Finding]:
    scheduling = document["Scheduling"]
    queues = scheduling["SlurmQueues"]
    names = [queue["Name"] for queue in queues]
    for name in names:
        if not _PART_NAME.fullmatch(str(name)) or name == "default":
            yield Finding("NameValidator", f"Invalid name '{name}'.")
        elif names.count(name) > 1:
            yield Finding("DuplicateNameValidator", f"Queue name {name} must be unique.")
    total = 0
    for queue in queues:
        (nodes,) = queue["ComputeResources"]
        low, high = int(nodes.get("MinCount", 0)), int(nodes.get("MaxCount", 10))
        total += high
        yield from _sizes(queue, nodes["Name"], low, high)
    if total > MOST_NODES:
        yield Finding("MaxCountValidator", f"The local cloud takes {MOST_NODES} nodes at most.")
    custom = (scheduling.get("SlurmSettings") or {}).get("CustomSlurmSettings") or []
    denied = sorted(key for entry in custom for key in entry if key.lower() in DENIED)
    if denied:
        words = "Using the following custom Slurm settings at SlurmConf level is not allowed: "
        yield Finding("CustomSlurmSettingsValidator", words + ",".join(denied))


def _sizes(queue: Json, name: str, low: int, high: int) -> Iterator[Finding]:
    kind = "ComputeResourceSizeValidator"
    if low > high:
        yield Finding(kind, "Max count must be greater than or equal to min count.")
    if queue.get("CapacityType") == "CAPACITY_BLOCK" and low != high:
        words = (
            f"When using CapacityType=CAPACITY_BLOCK, compute resource {name} (queue "
            f"{queue['Name']}) must have MinCount and MaxCount set to the same value."
        )
        yield Finding(kind, words)


def _parts(document: Json) -> list[Json]:
    pools = (document.get("LoginNodes") or {}).get("Pools") or []
    return [document["HeadNode"], *document["Scheduling"]["SlurmQueues"], *pools]


def _permissions(document: Json, world: World) -> Iterator[Finding]:
    named = {
        str(one["Policy"])
        for part in _parts(document)
        for one in (part.get("Iam") or {}).get("AdditionalIamPolicies") or []
    }
    for arn in sorted(named):
        if not world.has_policy(arn):
            yield Finding("AdditionalIamPolicyValidator", f"Policy {arn} was not found.")


def _scripts(document: Json, world: World) -> Iterator[Finding]:
    named = set()
    for part in _parts(document):
        for given in (part.get("CustomActions") or {}).values():
            steps = given.get("Sequence") or ([given] if given else [])
            named |= {str(step["Script"]) for step in steps}
    for source in sorted(named):
        if not source.startswith("s3://"):
            words = f"The local cloud reads scripts from S3 only, and {source} is elsewhere."
            yield Finding("UrlValidator", words)
            continue
        bucket, _, key = source.removeprefix("s3://").partition("/")
        if not world.has_object(bucket, key):
            words = f"Failed when accessing object '{key}' from bucket '{bucket}'."
            yield Finding("S3BucketUriValidator", f"{words} This can be due to '{key}' not found")
