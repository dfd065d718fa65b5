"""The files that every node of a cluster downloads.

They are the lifecycle scripts and our Python packages, as the layers unpack them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import trainyard_contracts
from trainyard.ports import Blobs

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
