"""Writes what a new node found into one log line.

First light compares that line with our assumptions about AWS.
"""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from node import resource_config_path, say

WORD = "trainyard-facts"
UNITS = ("munge", "slurmctld", "slurmd")
ASK_SECONDS = 5.0
#: A name in slurm.conf; nothing else of that file is told.
PLAIN = re.compile(r"[A-Za-z0-9_-]{1,63}")
Json = dict[str, Any]


def tell(found: Mapping[str, Any]) -> None:
    """One line of JSON; several lines of one node are read as one object."""
    say(f"{WORD} {json.dumps(found, separators=(',', ':'), sort_keys=True)}")


def tell_found(environ: Mapping[str, str] = os.environ) -> None:
    """Everything that a node knows before the first step; null for the unknown. Never fails."""
    root = environ.get("TRAINYARD_ROOT", "").rstrip("/")
    asked: dict[str, Callable[[], Any]] = {
        "user": getpass.getuser,
        "python": platform.python_version,
        "ensurepip": lambda: importlib.util.find_spec("ensurepip") is not None,
        "awsCli": lambda: shutil.which("aws") is not None,
        "git": lambda: shutil.which("git") is not None,
        "credentials": lambda: "environment" if environ.get("AWS_ACCESS_KEY_ID") else "instance",
        "limits": limits,
        "units": lambda: None if root else {unit: state(unit) for unit in UNITS},
        "slurm": lambda: slurm(root, environ),
        "resourceConfig": lambda: resource_config(resource_config_path(root, environ)),
        "hostNamedByAddress": lambda: named_by_address(socket.gethostname()),
    }
    tell({"moment": "found", **{name: unless_it_fails(ask) for name, ask in asked.items()}})


def tell_network(
    names_seconds: float, services: Mapping[str, tuple[str, int]], mount_path: str
) -> None:
    """How long names took, which services connect, and whether the shared filesystem is mounted.

    Never fails.
    """
    reached = {name: bool(unless_it_fails(partial(connects, at))) for name, at in services.items()}
    tell(
        {
            "moment": "network",
            "namesSeconds": round(names_seconds, 1),
            "reached": reached,
            "mounted": os.path.ismount(mount_path),
        }
    )


def unless_it_fails(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:  # noqa: BLE001 - a node must not be lost for want of a fact
        return None


def connects(at: tuple[str, int]) -> bool:
    socket.create_connection(at, timeout=ASK_SECONDS).close()
    return True


def limits() -> Json:
    """Soft and hard, -1 for none."""
    kinds = {"nofile": resource.RLIMIT_NOFILE, "memlock": resource.RLIMIT_MEMLOCK}
    return {name: list(resource.getrlimit(kind)) for name, kind in kinds.items()}


def state(unit: str) -> str:
    """systemd's word for a unit: active, inactive, failed, ..."""
    return ask_program(["systemctl", "show", unit, "--property=ActiveState", "--value"])


def ask_program(argv: list[str]) -> str:
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=ASK_SECONDS, check=True
    ).stdout.strip()


def slurm(root: str, environ: Mapping[str, str]) -> Json:
    """Slurm's layout and version, slurmd's unit, and nodes and partitions of slurm.conf."""
    daemon = Path(root + "/opt/slurm/sbin/slurmd")
    unit = Path("/etc/systemd/system/slurmd.service")
    conf = Path(environ.get("SLURM_CONF") or root + "/opt/slurm/etc/slurm.conf")
    found: Json = {
        "version": unless_it_fails(
            lambda: ask_program([str(daemon) if daemon.exists() else "slurmd", "-V"])
        ),
        "layout": daemon.exists() and Path(root + "/opt/slurm/bin/sbatch").exists(),
        "conf": conf.exists(),
        "unit": unless_it_fails(lambda: server_of(unit.read_text())) if not root else None,
    }
    return {**found, **(unless_it_fails(lambda: configuration(whole(conf))) or {})}


def server_of(unit: str) -> str:
    """How slurmd's unit names its server: by a variable, by an option, or not at all."""
    commands = "\n".join(
        line for line in unit.splitlines() if line.startswith(("ExecStart=", "Environment"))
    )
    if "--conf-server" in commands:
        return "--conf-server"
    return "$SLURMD_OPTIONS" if "SLURMD_OPTIONS" in commands else "none"


def whole(conf: Path) -> str:
    """The file with those that it includes."""
    text = conf.read_text(errors="replace")
    named = re.findall(r"^\s*include\s+(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return "\n".join([text, *((conf.parent / name).read_text(errors="replace") for name in named)])


def configuration(text: str) -> Json:
    """What slurm.conf says of nodes and partitions.

    The user of slurmctld, whether it serves its configuration, node lines and those of cloud nodes,
    partitions and the default one.
    """
    nodes = re.findall(r"^\s*NodeName=(.*)$", text, re.IGNORECASE | re.MULTILINE)
    partitions = re.findall(r"^\s*PartitionName=(\S+)(.*)$", text, re.IGNORECASE | re.MULTILINE)
    user = re.search(r"^\s*SlurmUser=(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return {
        "user": user[1] if user and PLAIN.fullmatch(user[1]) else None,
        "configless": "enable_configless" in text,
        "nodes": len(nodes),
        "cloudNodes": sum("state=cloud" in line.lower() for line in nodes),
        "partitions": sorted(name for name, _ in partitions if PLAIN.fullmatch(name)),
        "defaultPartitions": sorted(
            name
            for name, rest in partitions
            if "default=yes" in rest.lower() and PLAIN.fullmatch(name)
        ),
    }


def resource_config(path: Path) -> Json:
    """Which of the things that we read are in the file, and how many instances each group has.

    null as it is written.
    """
    content = json.loads(path.read_bytes())
    groups = {}
    for group in content["InstanceGroups"]:
        instances = group.get("Instances")
        groups[str(group["Name"])] = (
            None if instances is None else [bool(one.get("CustomerIpAddress")) for one in instances]
        )
    return {
        "place": "variable" if os.environ.get("SAGEMAKER_RESOURCE_CONFIG_PATH") else "default",
        "type": content.get("ClusterType"),
        "clusterArn": bool((content.get("ClusterConfig") or {}).get("ClusterArn")),
        "groups": groups,
    }


def named_by_address(host_name: str) -> bool:
    return re.fullmatch(r"ip(-\d{1,3}){4}", host_name.partition(".")[0]) is not None
