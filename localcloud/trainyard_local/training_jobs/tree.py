"""/opt/ml of one container, as SageMaker lays it out before the program starts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INTERFACE = "eth0"
GROUP = "homogeneousCluster"
#: Warm pools keep it from one job to the next.
CACHE = "sagemaker/warmpoolcache"
_DIRECTORIES = (
    "input/config", "input/data", "code", "model", "output/data", "checkpoints", CACHE,
)  # fmt: skip


def path_of(ml: Path, inside: str) -> Path:
    """Where a path below /opt/ml lies on this machine."""
    return ml / inside.removeprefix("/opt/ml/").strip("/")


def fresh(ml: Path) -> None:
    """Everything empty, but the cache of a warm pool."""
    for entry in ml.iterdir() if ml.is_dir() else ():
        if entry.name == CACHE.split("/", maxsplit=1)[0]:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for name in _DIRECTORIES:
        (ml / name).mkdir(parents=True, exist_ok=True)


def configure(ml: Path, request: Mapping[str, Any], host: str, hosts: Sequence[str]) -> None:
    """The files that tell a program of its job and of the other hosts."""
    files = {
        "hyperparameters": request.get("HyperParameters") or {},
        "resourceconfig": resources(request["ResourceConfig"]["InstanceType"], host, hosts),
        "inputdataconfig": channels(request.get("InputDataConfig") or []),
    }
    for name, content in files.items():
        path = ml / "input" / "config" / f"{name}.json"
        path.write_text(json.dumps(content))


def resources(kind: str, host: str, hosts: Sequence[str]) -> dict[str, Any]:
    """resourceconfig.json; names of hosts are in the order of their letters, as AWS has them."""
    names = sorted(hosts)
    group = {"instance_group_name": GROUP, "instance_type": kind, "hosts": names}
    return {
        "current_host": host,
        "current_instance_type": kind,
        "current_group_name": GROUP,
        "hosts": names,
        "instance_groups": [group],
        "network_interface_name": INTERFACE,
    }


def channels(configured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """inputdataconfig.json, by the channel's name."""
    return {channel["ChannelName"]: _channel(channel) for channel in configured}


def _channel(channel: Mapping[str, Any]) -> dict[str, str]:
    entry = {"TrainingInputMode": "File", "RecordWrapperType": "None"}
    if objects := channel["DataSource"].get("S3DataSource"):
        entry["S3DistributionType"] = objects.get("S3DataDistributionType", "FullyReplicated")
    if channel.get("ContentType"):
        entry["ContentType"] = channel["ContentType"]
    return entry
