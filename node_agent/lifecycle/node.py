"""What lifecycle scripts know of their node: HyperPod's files, its role, and its root prefix."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

# The bundle's own packages; with -S there are no others.
sys.path.append(str(Path(__file__).resolve().parent / "lib"))
from trainyard_trainers.launch import environments

T = TypeVar("T")
#: HyperPod fills resource_config.json while instances come; an own address may be missing for this
#: long.
ADDRESS_SECONDS = 60.0
#: A mount, an installation, a secret: what a network that has just come up refuses is tried this
#: often.
TRIES = 5
PAUSE_SECONDS = 5.0
REQUIRED = (
    "clusterName", "region", "eventBus", "dataBucket", "secretName", "controllerGroup",
    "workerGroups", "linkPort", "sharedFilesystem",
)  # fmt: skip


class StepFailed(Exception):
    """A step cannot go on; the message says why and what to do."""


def say(line: str) -> None:
    print(f"[trainyard] {line}", flush=True)


@dataclass(frozen=True)
class Identity:
    """Who this node is, found in resource_config.json by its own address."""

    instance_id: str
    group: str
    role: str
    address: str
    controller_address: str
    cluster_arn: str
    #: Where it does not follow from the address.
    slurm_name: str = ""

    @property
    def node_name(self) -> str:
        """The node's name in Slurm: HyperPod's, if nothing else is known."""
        return self.slurm_name or "ip-" + self.address.replace(".", "-")


@dataclass(frozen=True)
class Node:
    """`root` is '' on AWS and TRAINYARD_ROOT on the local cloud; `path` makes every path."""

    root: str
    bundle: Path
    cluster: Mapping[str, Any]
    identity: Identity
    environ: Mapping[str, str]

    @property
    def local(self) -> bool:
        return bool(self.root)

    def path(self, absolute: str) -> Path:
        """`absolute` ('/etc/...') below this node's root."""
        return Path(self.root + absolute)

    def write(self, absolute: str, text: str, mode: int = 0o644) -> None:
        """Replace a file in one rename, so that a crash leaves the old or the new one."""
        target = self.path(absolute)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "w") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        part.replace(target)

    @classmethod
    def load(cls) -> Node:
        environ = os.environ
        root = environ.get("TRAINYARD_ROOT", "").rstrip("/")
        bundle = Path(__file__).resolve().parent
        cluster = cluster_file(bundle)
        given = resource_config_path(root, environ)
        return cls(root, bundle, cluster, await_identity(cluster, given, environ), environ)


def cluster_file(bundle: Path) -> dict[str, Any]:
    """What the control plane says of the cluster. Raises StepFailed."""
    cluster = read_json(bundle / "cluster.json", "the control plane puts it beside the scripts")
    missing = [key for key in REQUIRED if key not in cluster]
    if missing:
        raise StepFailed(
            f"cluster.json has no {', '.join(missing)}; the control plane that wrote it "
            "and these scripts do not match"
        )
    return cluster


def resource_config_path(root: str, environ: Mapping[str, str]) -> Path:
    """Where HyperPod puts what it knows of the cluster's groups and instances."""
    return Path(
        environ.get("SAGEMAKER_RESOURCE_CONFIG_PATH")
        or root + "/opt/ml/config/resource_config.json"
    )


def await_identity(cluster: Mapping[str, Any], given: Path, environ: Mapping[str, str]) -> Identity:
    """Who this node is, as soon as the file says so. Raises StepFailed."""
    deadline = time.monotonic() + ADDRESS_SECONDS
    while True:
        resources = read_json(given, "HyperPod writes it before it runs the lifecycle scripts")
        try:
            return identify(cluster, resources, own_addresses(environ))
        except StepFailed as failed:
            if environ.get("TRAINYARD_ADDRESS") or time.monotonic() > deadline:
                raise
            say(f"waiting for {given}: {failed}")
            time.sleep(PAUSE_SECONDS)


def read_json(path: Path, origin: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StepFailed(f"{path} is missing; {origin}") from None
    except ValueError as error:
        raise StepFailed(f"{path} is not valid JSON ({error}); {origin}") from None
    if not isinstance(value, dict):
        raise StepFailed(f"{path} must hold a JSON object; {origin}")
    return value


def own_addresses(environ: Mapping[str, str]) -> set[str]:
    """TRAINYARD_ADDRESS if set (local nodes share a machine), else each address of this machine."""
    if environ.get("TRAINYARD_ADDRESS"):
        return {environ["TRAINYARD_ADDRESS"]}
    return set(command(["hostname", "-I"]).split())


def identify(
    cluster: Mapping[str, Any], resources: Mapping[str, Any], addresses: set[str]
) -> Identity:
    """Find this node in resource_config.json.

    Its layout is that of the base-config lifecycle scripts of awsome-distributed-ai.
    """
    mine: tuple[str, Mapping[str, Any]] | None = None
    controllers: list[str] = []
    for group in resources.get("InstanceGroups") or []:
        # A group that has no instance yet is null, and an instance has no address before it has
        # booted.
        for instance in group.get("Instances") or []:
            if group["Name"] == cluster["controllerGroup"] and instance.get("CustomerIpAddress"):
                controllers.append(instance["CustomerIpAddress"])
            if instance.get("CustomerIpAddress") in addresses:
                mine = (group["Name"], instance)
    if mine is None:
        raise StepFailed(
            f"none of this machine's addresses ({', '.join(sorted(addresses)) or 'none'}) is "
            "in resource_config.json; "
            "the file is stale or belongs to another cluster"
        )
    if not controllers:
        raise StepFailed(
            "resource_config.json has no instance in the controller group "
            f"'{cluster['controllerGroup']}'"
        )
    group_name, instance = mine
    return Identity(
        instance_id=instance["InstanceId"],
        group=group_name,
        role=role_of(cluster, group_name),
        address=instance["CustomerIpAddress"],
        controller_address=controllers[0],
        cluster_arn=resources["ClusterConfig"]["ClusterArn"],
    )


def role_of(cluster: Mapping[str, Any], group: str) -> str:
    if group == cluster["controllerGroup"]:
        return "controller"
    return "worker" if any(entry["name"] == group for entry in cluster["workerGroups"]) else "login"


def repeatedly(node: Node, what: str, action: Callable[[], T]) -> T:
    """The action's result, tried TRIES times; on the local cloud, whose network is up, once.

    Raises the last StepFailed.
    """
    if node.local:
        return action()
    for attempt in range(1, TRIES):
        try:
            return action()
        except StepFailed as failed:
            say(f"{what}, try {attempt} of {TRIES}: {failed}")
            time.sleep(PAUSE_SECONDS)
    return action()


def command(
    argv: Sequence[str], *, timeout: float = 60, env: Mapping[str, str] | None = None
) -> str:
    """Run a program (never through a shell) and return its stdout.

    Raises StepFailed with its last words if it fails or hangs.
    """
    try:
        return environments.command(argv, timeout=timeout, env=env)
    except environments.EnvironmentFailed as failed:
        raise StepFailed(str(failed)) from None
