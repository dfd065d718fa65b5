"""Decides at an attempt's submission which image it runs in: all attempts of a run have the same.

The first attempt asks the registry what the reference names now. What the first node of the job
then imports is named by that digest, so a tag that moves changes no run.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainyard_agent.host import registry
from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Unreachable
from trainyard_agent.host.registry import ARCHITECTURES, ImageRefused, Registry
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_contracts import images, places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.bundle_parts import BundleImage
from trainyard_contracts.job_bundle import JobBundle

#: A squashfs image begins so.
SQUASHFS = b"hsqs"
# Pyxis separates by them, and knows no way to write them in a path.
_SEPARATORS = frozenset(",: \t\n")


class Images:
    """The images of this cluster's jobs."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config

    def settled(
        self,
        bundle: JobBundle,
        earlier: Iterable[JobBundle | None],
        nodes: Mapping[str, SlurmNode],
        has_pyxis: bool,
    ) -> JobBundle:
        """The bundle with the digest of its image; it runs in a thread.

        `earlier`: the bundles of the run's other attempts. Raises CommandRefused.
        """
        image = bundle.image
        if image is None:
            return bundle
        _require_pyxis(has_pyxis)
        try:
            if images.is_file(image.name):
                self._require_file(image.name)
                return bundle
            known = (older.image.digest for older in earlier if older and older.image)
            digest = image.digest or next(filter(None, known), "")
            digest = digest or _ask(image.name, architecture(bundle, nodes))
        except ImageRefused as refused:
            raise CommandRefused("image-refused", f"job.image '{image.name}': {refused}") from None
        except Unreachable as error:
            words = f"job.image '{image.name}': {error}; the same command again is safe"
            raise CommandRefused("unreachable", words) from error
        return bundle.changed(image=image.changed(digest=digest))

    def _require_file(self, name: str) -> None:
        path, root = Path(name), Path(self._config.shared_root)
        if root not in path.parents:
            raise ImageRefused(f"it is not below {root}, so not all nodes have it; put it there")
        try:
            with path.open("rb") as stream:
                begin = stream.read(len(SQUASHFS))
        except OSError as error:
            raise ImageRefused(f"the file cannot be read: {error.strerror}") from None
        if begin != SQUASHFS:
            raise ImageRefused("the file is no squashfs image; make it with enroot import")


def _require_pyxis(there: bool) -> None:
    if there:
        return
    where = (
        "the local cloud runs no containers"
        if os.environ.get("TRAINYARD_LOCAL")
        else "this cluster's srun has no option --container-image, so Pyxis is not installed"
    )
    raise CommandRefused("image-needs-pyxis", f"job.image: {where}")


def _ask(name: str, wanted: str) -> str:
    reference = images.reference(name)
    return Registry(reference, registry.login(reference.registry)).digest(wanted)


def architecture(bundle: JobBundle, nodes: Mapping[str, SlurmNode]) -> str:
    """Of the job's nodes, as images name it. Raises ImageRefused where they have several."""
    found = {
        node.architecture
        for node in nodes.values()
        if node.architecture and (not bundle.partition or bundle.partition in node.partitions)
    } or {platform.machine()}
    if len(found) > 1:
        raise ImageRefused(
            f"the job's nodes are {' and '.join(sorted(found))}; name a partition with nodes of "
            "one kind in job.partition"
        )
    (kernel,) = found
    return ARCHITECTURES.get(kernel, kernel)


def imported(config: AgentConfig, image: BundleImage) -> Path:
    """The file that the nodes start it from."""
    if images.is_file(image.name):
        return Path(image.name)
    top = Path(config.shared_root) / "trainyard" / places.IMAGES
    return top / f"{image.digest.replace(':', '-')}.sqsh"


def write_places(directory: Path, bundle: JobBundle, config: AgentConfig) -> None:
    """What the batch script gives to srun: the image's file, and what a job finds in it.

    All lies where it lies on the node, so no path in a job's files changes its meaning. Raises
    OSError, and CommandRefused for a path that Pyxis cannot mount.
    """
    if bundle.image is None:
        return
    ours = str(Path(config.library_dir).parent)  # with the agent's packages, which read secrets
    paths = [config.shared_root, *bundle.image.mounts]
    wrong = next((path for path in [*paths, ours] if _SEPARATORS & {*path}), None)
    if wrong is not None:
        raise CommandRefused("image-refused", f"job.image: Pyxis cannot mount the path '{wrong}'")
    mounts = ",".join([*(f"{path}:{path}" for path in paths), f"{ours}:{ours}:ro"])
    replace_file(directory / places.IMAGE, str(imported(config, bundle.image)).encode())
    replace_file(directory / places.IMAGE_MOUNTS, mounts.encode())
