"""The hosts of one training job, on a network that nobody else is on."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.training_jobs.host import Host
from trainyard_local.training_jobs.namespaces import Namespaces
from trainyard_local.training_jobs.tree import INTERFACE

DIRECTORY = "training-jobs"
NETWORK = "10.0.0"
FIRST_HOST = 11
#: Killing a host waits for its processes, and so it is done for several at a time.
AT_ONCE = 4


class Fleet:
    """Made with all its hosts. Raises OSError where that is not permitted."""

    def __init__(self, cloud: LocalCloud, count: int, *, isolated: bool) -> None:
        self.directory: Path = cloud.state_dir / DIRECTORY / f"fleet-{secrets.token_hex(6)}"
        self.hosts: list[Host] = []
        self._switch = Namespaces("switch", {cloud.naming.tag: str(cloud.state_dir)})
        try:
            self._switch.ip(["link add name bridge type bridge forward_delay 0",
                             "link set bridge up"])  # fmt: skip
            for number in range(1, count + 1):
                name = f"algo-{number}"
                host = Host(cloud, name, self.directory / name, isolated=isolated)
                self.hosts.append(host)
                self._connect(host, number)
        except BaseException:
            self.close()
            raise
        addresses = {host.name: _address(n) for n, host in enumerate(self.hosts, start=1)}
        for host in self.hosts:
            host.know(addresses)

    def _connect(self, host: Host, number: int) -> None:
        """A wire from the host's interface to the bridge."""
        pid, port = host.namespaces.pid, f"port{number}"
        self._switch.ip(
            [
                f"link add name {port} type veth peer name {INTERFACE} netns {pid}",
                f"link set {port} master bridge up",
            ]
        )
        host.namespaces.ip(
            [
                "link set lo up",
                f"address add {_address(number)}/24 dev {INTERFACE}",
                f"link set {INTERFACE} up",
            ]
        )

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.hosts]

    @property
    def whole(self) -> bool:
        """Whether all hosts are there."""
        return all(host.alive for host in self.hosts)

    def host(self, name: str) -> Host | None:
        """The host with this name."""
        return next((host for host in self.hosts if host.name == name), None)

    def terminate(self) -> None:
        """Ask all containers to end."""
        for host in self.hosts:
            host.terminate()

    def stop(self) -> None:
        """End all containers at once; the hosts stay."""
        _all(host.stop for host in self.hosts)

    def close(self) -> None:
        """Nothing of it stays; safe to call again."""
        _all(host.remove for host in self.hosts)
        self._switch.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _all(actions: Iterable[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()


def _address(number: int) -> str:
    return f"{NETWORK}.{FIRST_HOST + number - 1}"
