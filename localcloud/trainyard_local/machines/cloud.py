"""What the machine nodes of one local cloud share: image, network, and the services on it.

The services are the resolver, instance metadata, the package index, and the door to the cloud's
endpoints.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.machines import host as machine_host
from trainyard_local.machines import image as machine_image
from trainyard_local.machines import network as machine_network
from trainyard_local.machines.index import Index
from trainyard_local.machines.metadata import Metadata
from trainyard_local.machines.names import Names

if TYPE_CHECKING:
    from sam_on_moto.wire.server import LoopbackServer


class Machines:
    """Made once for a cloud; `close` removes the network after the machines are off."""

    def __init__(
        self, cloud: LocalCloud, image: Path, serve: Callable[[str, int], LoopbackServer]
    ) -> None:
        self.image = image
        self.filesystems = cloud.state_dir / "fsx"
        self.filesystems.mkdir(parents=True, exist_ok=True)
        self.network = machine_network.Network(cloud.state_dir)
        self._state_dir = cloud.state_dir
        self._credentials: dict[str, Mapping[str, str]] = {}
        self.names = Names(self.network.host, self.network.subnet)
        self.index = Index(self.network.host, cloud.state_dir / "packages")
        self._metadata = Metadata(self.network.host, self._credentials.get)
        self._server = serve(self.network.host, cloud.port)
        self._server.start()
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://{self.network.host}:{self._server.port}",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self._metadata.endpoint,
            "AWS_REGION": cloud.region,
            "AWS_DEFAULT_REGION": cloud.region,
        }

    def came(self, address: str, credentials: Mapping[str, str]) -> None:
        """A node with this address boots, and may ask for its role's credentials.

        Its resolver is late, and its package index empty at first.
        """
        self._credentials[address] = credentials
        self.names.booted(address)
        self.index.booted(address)

    def gone(self, address: str) -> None:
        self._credentials.pop(address, None)
        self.network.give_back(address)

    def close(self) -> None:
        self._server.close()
        self._metadata.close()
        self.index.close()
        self.names.close()
        machine_network.remove(self._state_dir)


#: Base system, image, and what debootstrap downloads meanwhile.
IMAGE_BYTES = 1500 * 2**20


def image(tell: Callable[[str], Any]) -> Path:
    """The image that nodes boot from.

    Raises machine_host.Impossible where nodes cannot be machines.
    """
    machine_host.require()
    if not machine_image.there():
        _room(machine_image.cache_directory())
        tell("building the nodes' disk image (once; some minutes)")
    return machine_image.ready()


def _room(directory: Path) -> None:
    """debootstrap calls a full disk a mirror that gives no packages.

    Raises machine_host.Impossible.
    """
    directory.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(directory).free
    if free < IMAGE_BYTES:
        raise machine_host.Impossible(
            f"the nodes' disk image needs {IMAGE_BYTES >> 20} MiB to be built in {directory}, "
            f"and {free >> 20} MiB are free",
            "Make room there, or name another directory with TRAINYARD_LOCAL_IMAGES",
        )
