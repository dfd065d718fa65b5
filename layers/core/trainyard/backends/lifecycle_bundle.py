"""The files that every node of a cluster downloads.

They are the lifecycle scripts and our Python packages, as the layers unpack them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict

from typing_extensions import Required, Unpack

import trainyard_contracts
from trainyard.outside.blobs import Blobs
from trainyard_contracts import places
from trainyard_contracts.cluster_parts import SharedFilesystem
from trainyard_contracts.files import ClusterFile, WorkerGroup
from trainyard_contracts.slurm_cluster import SlurmCluster

_PARALLEL = 8


class BundleIncomplete(RuntimeError):
    """The function was deployed without a layer that nodes need."""


@dataclass(frozen=True)
class BundleSources:
    """Directories by what they become below the lifecycle prefix."""

    lifecycle: Path
    agent: Path
    contracts: Path
    trainers: Path
    job_library: Path
    packages: Path | None = None
    """What the agent imports, packed for nodes (node_agent/build_packages.py)."""

    @classmethod
    def of_layers(cls) -> BundleSources:
        """Where the layers lie (/opt in a Lambda), found by a package that is always in a layer."""
        contracts = Path(trainyard_contracts.__file__).parent
        opt = contracts.parents[1]
        return cls(
            opt / "lifecycle",
            opt / "trainyard_agent",
            contracts,
            opt / "trainyard_trainers",
            opt / "trainyard_job",
            opt / "packages",
        )

    def files(self) -> dict[str, Path]:
        """Every file by its path below the lifecycle prefix. Raises BundleIncomplete."""
        trees = {
            "": self.lifecycle,
            "lib/trainyard_agent/": self.agent,
            "lib/trainyard_contracts/": self.contracts,
            "lib/trainyard_trainers/": self.trainers,
            "lib/trainyard_job/": self.job_library,
        }
        if (
            self.packages is not None and self.packages.is_dir()
        ):  # the local cloud deploys the sources as they are, and its nodes bring an interpreter
            trees["packages/"] = self.packages
        return {
            prefix + path.relative_to(tree).as_posix(): path
            for prefix, tree in trees.items()
            for path in _sources(tree)
        }


class Deployed(Protocol):
    """What a backend's settings have that every node needs."""

    @property
    def region(self) -> str: ...
    @property
    def event_bus(self) -> str: ...
    @property
    def bucket(self) -> str: ...
    @property
    def secret_prefix(self) -> str: ...
    @property
    def heartbeat_seconds(self) -> float: ...
    @property
    def link_port(self) -> int: ...


class Nodes(TypedDict, total=False):
    """What each backend says itself."""

    shared_filesystem: SharedFilesystem
    shared_path: str
    slurm_setup: Required[
        Literal["SlurmConfig", "ProvisioningParameters", "BackendsOwn", "Adopted"]
    ]
    controller_group: Required[str]
    worker_groups: Required[list[WorkerGroup]]
    expected_workers: Required[int]


def cluster_file(
    name: str, spec: SlurmCluster, deployed: Deployed, **nodes: Unpack[Nodes]
) -> ClusterFile:
    """What each node of the cluster reads first."""
    return ClusterFile(
        cluster_name=name,
        region=deployed.region,
        event_bus=deployed.event_bus,
        data_bucket=deployed.bucket,
        runs_prefix=places.runs_prefix(name),
        secret_name=places.agent_key_secret(deployed.secret_prefix, name),
        heartbeat_seconds=deployed.heartbeat_seconds,
        link_port=deployed.link_port,
        environment=spec.environment,
        users=spec.users,
        s3_mounts=spec.s3_mounts,
        **nodes,
    )


def as_file(content: Any) -> bytes:
    """A document of the bundle, as people and programs read it."""
    return (json.dumps(content, indent=2) + "\n").encode()


def sizes(sources: BundleSources, generated: Mapping[str, bytes], prefix: str) -> dict[str, int]:
    """How large each object of a cluster's bundle is, by its key."""
    found = {path: file.stat().st_size for path, file in sources.files().items()}
    found |= {path: len(body) for path, body in generated.items()}
    return {f"{prefix}/{path}": size for path, size in sorted(found.items())}


def upload(
    blobs: Blobs, sources: BundleSources, generated: Mapping[str, bytes], prefix: str
) -> None:
    """Put a cluster's bundle where its nodes look for it. Again changes nothing."""
    bodies: dict[str, bytes | Path] = {**sources.files(), **generated}

    def put(path: str) -> None:
        body = bodies[path]
        blobs.put(f"{prefix}/{path}", body.read_bytes() if isinstance(body, Path) else body)

    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(put, bodies))


def _sources(tree: Path) -> Iterator[Path]:
    found = [
        path
        for path in sorted(tree.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]
    if not found:
        raise BundleIncomplete(
            f"{tree} holds no files; "
            "template.yaml must give this function the node, trainers and job library layers"
        )
    yield from found
