"""What may change in a cluster that is there, and what has to stand still for it.

ParallelCluster has an update policy for each key. Known here are those of 3.16.1 for the keys that
the local cloud reads, with their words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard_local.parallelcluster.judging import BadRequest

Json = Mapping[str, Any]
STOPPED = "All compute nodes must be stopped"
_STOP = "Stop the compute fleet with the pcluster update-compute-fleet command"
_STOP_OR_TERMINATE = (
    "Stop the compute fleet or set QueueUpdateStrategy:TERMINATE in config to remove nodes from "
    "the scheduler, terminate the associated instances & any running jobs"
)
_RESIZED = (
    "Updating the file system after a resize operation requires commands specific to your "
    "operating system."
)
_OR_STRATEGY = (
    ", or set QueueUpdateStrategy in the configuration used for the 'update-cluster' operation"
)
_MANAGED = (
    "Forcing an update would trigger a deletion of the existing file system and result in "
    "potential data loss. If you intend to preserve the same file system or you want to create a "
    "new one please refer to the shared storage section in ParallelCluster user guide."
)


@dataclass(frozen=True)
class Change:
    """One key with its two values; `refusal` is '' where it may change now."""

    parameter: str
    old: Any
    new: Any
    refusal: str = ""

    def told(self) -> dict[str, str]:
        return {
            "parameter": self.parameter,
            "currentValue": _text(self.old),
            "requestedValue": _text(self.new),
        }

    def error(self) -> dict[str, str]:
        return {**self.told(), "message": self.refusal}


class Refused(Exception):
    """An update is refused; each change says whether it is to blame."""

    def __init__(self, changes: list[Change]) -> None:
        super().__init__("Update failure")
        self.changes = changes


def judged(have: Json, wanted: Json, *, fleet_stopped: bool) -> list[Change]:
    """The changes of one document to the other. Raises Refused, BadRequest (nothing changes)."""
    patch = Patch(have, wanted, fleet_stopped)
    changes = [*patch.fixed(), *patch.queues()]
    if any(change.refusal for change in changes):
        raise Refused(changes)
    if not changes:
        raise BadRequest("Bad Request: No changes found in your cluster configuration.")
    return changes


@dataclass(frozen=True)
class Patch:
    """Two documents, as the user wrote them."""

    have: Json
    wanted: Json
    stopped: bool

    def fixed(self) -> Iterator[Change]:
        """Everything but the queues. What is not named here is not changed on the local cloud."""
        for key in ("Image", "Region", "Imds", "CustomS3Bucket", "LoginNodes", "SharedStorage"):
            yield from self._compared((key,), _unsupported)
        size = ("HeadNode", "LocalStorage", "RootVolume", "Size")
        yield from self._compared(size, lambda *_: _RESIZED)
        for key in ("InstanceType", "Networking", "Dcv"):
            yield from self._compared(("HeadNode", key), _unsupported)
        yield from self._compared(("HeadNode", "CustomActions", "OnNodeConfigured"), _unsupported)
        for path in (
            ("HeadNode", "CustomActions", "OnNodeUpdated"),
            ("HeadNode", "Iam"),
            ("HeadNode", "Ssh"),
            ("Iam",),
            ("Tags",),
            ("Scheduling", "SlurmSettings", "CustomSlurmSettings"),
        ):
            yield from self._compared(path, _supported)
        yield from self._compared(("Scheduling", "SlurmSettings", "ScaledownIdletime"), self._stop)

    def queues(self) -> Iterator[Change]:
        have, wanted = _named(self.have), _named(self.wanted)
        for name, queue in wanted.items():
            if name in have:
                yield from self._queue(f"Scheduling.SlurmQueues[{name}]", have[name], queue)
            else:
                yield Change("Scheduling.SlurmQueues", None, queue)
        for name in have.keys() - wanted.keys():
            yield Change("Scheduling.SlurmQueues", have[name], None, self._resize())

    def _queue(self, where: str, old: Json, new: Json) -> Iterator[Change]:
        for key in ("CapacityType", "AllocationStrategy", "ComputeSettings", "Image"):
            yield from _differ(where, key, old, new, self._strategy)
        network = _parts("Networking", old, new)
        yield from _differ(f"{where}.Networking", "SubnetIds", *network, self._subnets)
        before, after = ({k: v for k, v in one.items() if k != "SubnetIds"} for one in network)
        if before != after:
            yield Change(f"{where}.Networking", before, after, self._strategy())
        scripts = _parts("CustomActions", old, new)
        yield from _differ(f"{where}.CustomActions", "OnNodeConfigured", *scripts, self._strategy)
        for key in ("Iam", "CustomSlurmSettings"):
            yield from _differ(where, key, old, new, _supported)
        (before,), (after,) = old["ComputeResources"], new["ComputeResources"]
        if before["Name"] != after["Name"]:
            yield Change(f"{where}.ComputeResources", None, after)
            yield Change(f"{where}.ComputeResources", before, None, self._resize())
            return
        yield from self._resource(f"{where}.ComputeResources[{before['Name']}]", before, after)

    def _resource(self, where: str, old: Json, new: Json) -> Iterator[Change]:
        yield from _differ(where, "MaxCount", old, new, self._more_at_most)
        more = int(new.get("MaxCount", 10)) - int(old.get("MaxCount", 10))
        most = int(old.get("MinCount", 0)) + max(0, more)
        within = more > 0 and int(new.get("MinCount", 0)) <= most
        yield from _differ(where, "MinCount", old, new, lambda *_: "" if within else self._resize())
        yield from _differ(where, "InstanceType", old, new, self._stop)
        types, before = _types(new), _types(old)
        for name in types - before:
            yield Change(f"{where}.Instances", None, {"InstanceType": name})
        for name in before - types:
            yield Change(f"{where}.Instances", {"InstanceType": name}, None, self._stop())
        yield from _differ(where, "DisableSimultaneousMultithreading", old, new, self._stop)
        for key in ("SpotPrice", "Efa", "CapacityReservationTarget"):
            yield from _differ(where, key, old, new, self._strategy)
        yield from _differ(where, "HealthChecks", old, new, _supported)

    def _compared(self, path: tuple[str, ...], rule: Callable[..., str]) -> Iterator[Change]:
        old, new = self.have, self.wanted
        for key in path[:-1]:
            old, new = old.get(key) or {}, new.get(key) or {}
        yield from _differ(".".join(path[:-1]), path[-1], old, new, rule)

    def _stop(self, *_: Any) -> str:
        return "" if self.stopped else f"{STOPPED}. {_STOP}"

    def _strategy(self, *_: Any) -> str:
        """QueueUpdateStrategy, where it is set, drains the nodes of the queue instead."""
        settings = self.wanted["Scheduling"].get("SlurmSettings") or {}
        if self.stopped or settings.get("QueueUpdateStrategy", "COMPUTE_FLEET_STOP") != (
            "COMPUTE_FLEET_STOP"
        ):
            return ""
        return f"{STOPPED} or QueueUpdateStrategy must be set. {_STOP}{_OR_STRATEGY}"

    def _subnets(self, key: str, *_: Any) -> str:
        """A filesystem that is made lies in the queues' subnet; another one would be made there."""
        if not _made(self.have) & _made(self.wanted):
            return self._strategy()
        return (
            f"{key} configuration cannot be updated when a managed FSx for Lustre file system is "
            f"configured. {_MANAGED}"
        )

    def _resize(self) -> str:
        if self.stopped:
            return ""
        words = f"{STOPPED} or QueueUpdateStrategy must be set to TERMINATE"
        return f"{words}. {_STOP_OR_TERMINATE}"

    def _more_at_most(self, key: str, old: Any, new: Any) -> str:
        return "" if int(new or 10) >= int(old or 10) else self._resize()


def _unsupported(key: str, old: Any, new: Any) -> str:
    wish = f"Restore '{key}' value to '{old}'"
    if old is None:
        wish = f"Remove the parameter '{key}'"
    return (
        f"Update actions are not currently supported for the '{key}' parameter. {wish}. If you "
        "need this change, please consider creating a new cluster instead of updating the existing "
        "one."
    )


def _supported(*_: Any) -> str:
    return ""


def _differ(
    where: str, key: str, old: Json, new: Json, rule: Callable[..., str]
) -> Iterator[Change]:
    before, after = old.get(key), new.get(key)
    if before != after:
        name = f"{where}.{key}" if where else key
        yield Change(name, before, after, rule(key, before, after))


def _parts(key: str, old: Json, new: Json) -> tuple[Json, Json]:
    return old.get(key) or {}, new.get(key) or {}


def _named(document: Json) -> dict[str, Json]:
    return {queue["Name"]: queue for queue in document["Scheduling"]["SlurmQueues"]}


def _made(document: Json) -> set[str]:
    """Names of the filesystems of FSx that are made with the cluster."""
    return {
        one["Name"]
        for one in document.get("SharedStorage") or []
        if one["StorageType"] == "FsxLustre"
        and "FileSystemId" not in (one.get("FsxLustreSettings") or {})
    }


def _types(resource: Json) -> set[str]:
    return {one["InstanceType"] for one in resource.get("Instances") or []}


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
