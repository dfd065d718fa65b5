"""One instance of a training job: a name, a network, a directory, and a container in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.training_jobs import tree
from trainyard_local.training_jobs.container import Container, Say, Spec
from trainyard_local.training_jobs.gate import Gate
from trainyard_local.training_jobs.namespaces import Namespaces

TAG = "TRAINYARD_JOB_HOST"
#: /etc/hosts of its containers.
HOSTS_FILE = "etc-hosts"


class Host:
    """It is there until `kill`. Raises OSError where namespaces are not permitted."""

    def __init__(self, cloud: LocalCloud, name: str, directory: Path, *, isolated: bool) -> None:
        self.name = name
        self.directory = directory
        self.ml = directory / "opt" / "ml"
        self.container: Container | None = None
        self._killed = False
        self.tags = {cloud.naming.tag: str(cloud.state_dir), TAG: name}
        for part in (self.ml, directory / "opt-stage", directory / "root", directory / "tmp"):
            part.mkdir(parents=True, exist_ok=True)
        self.namespaces = Namespaces(name, self.tags)
        self._gate = None if isolated else Gate(self.namespaces, cloud.port)

    @property
    def alive(self) -> bool:
        return not self._killed and self.namespaces.alive

    @property
    def exit_code(self) -> int | None:
        """Of the container; None before it has ended."""
        return self.container.exit_code if self.container else None

    def know(self, addresses: Mapping[str, str]) -> None:
        """The names of all hosts, as the container's /etc/hosts has them."""
        lines = ["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in addresses.items())]
        (self.directory / HOSTS_FILE).write_text("\n".join(lines) + "\n")

    def start(
        self,
        command: list[str],
        environment: Mapping[str, str],
        filesystems: list[tuple[str, str, bool]],
        say: Say,
        ended: Callable[[], None],
    ) -> None:
        """Run the program in a container; `filesystems` are (source, path inside, writable)."""
        own = {"HOME": str(self.directory / "root"), "TMPDIR": str(self.directory / "tmp")}
        spec = Spec(
            command=command,
            environment={**environment, **own, **self.tags},
            ml=str(self.ml),
            opt=str(self.directory / "opt-stage"),
            hosts=str(self.directory / HOSTS_FILE),
            filesystems=filesystems,
        )
        file = self.directory / "container.json"
        self.container = Container(self.namespaces, spec, file, self.tags, say, ended)

    def terminate(self) -> None:
        """Ask the container to end."""
        if self.container:
            self.container.terminate()

    def stop(self) -> None:
        """End the container at once; the host stays."""
        if self.container:
            self.container.kill()

    def clear(self) -> None:
        """What the last container left is gone; only for a host that stays."""
        self.container = None
        tree.fresh(self.ml)

    def kill(self) -> None:
        """The instance is gone at once, with everything on it; safe to call again."""
        self._killed = True
        self.stop()
        self.namespaces.close()
        if self._gate:
            self._gate.close()

    def remove(self) -> None:
        """The instance is gone, and its disk too."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
