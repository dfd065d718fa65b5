"""Where the data of a run's program lie, and whether its paths are free."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import Field

from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.jobs import work
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.base import Lenient
from trainyard_contracts.bundle_parts import BundleInput
from trainyard_contracts.commands import INPUT_REFUSED
from trainyard_contracts.inputs import misplaced, names_path
from trainyard_contracts.job_bundle import JobBundle


class Brought(Lenient):
    """What lies at a place: beside it, and once more in the directory of each run that reads it."""

    source: str
    listing: str = Field(default="", description="hash of the listing; '' of uploaded data")
    objects: int = Field(ge=0)
    bytes: int = Field(ge=0)
    seconds: float = Field(ge=0)
    at: datetime


@dataclass(frozen=True)
class Place:
    """Where one input of a run lies; `link`: where the program finds it, if that is elsewhere."""

    number: int
    given: BundleInput
    target: Path
    record: Path
    link: Path | None

    @property
    def what(self) -> str:
        return f"inputs.{self.number}"

    @property
    def stage(self) -> Path:
        return self.target.with_name(f".{self.target.name}.trainyard")

    @property
    def marker(self) -> Path:
        return self.target.with_name(f".{self.target.name}.trainyard.json")

    @property
    def lock(self) -> Path:
        return self.target.with_name(f".{self.target.name}.trainyard.lock")

    @property
    def source(self) -> str:
        return f"upload {self.given.code.tree}" if self.given.code else self.given.source

    @property
    def own(self) -> bool:
        """Of this run alone."""
        return self.link is not None

    def refused(self, field: str, words: str) -> CommandRefused:
        return CommandRefused(INPUT_REFUSED, f"{self.what}.{field}: {words}")


def places_of(config: AgentConfig, bundle: JobBundle) -> list[Place]:
    """Raises CommandRefused for a path that is not below the shared filesystem."""
    root = run_dir(config, bundle.run_id)
    found = []
    for number, one in enumerate(bundle.inputs):
        record = root / places.INPUTS / f"{number}.json"
        if one.path.startswith("/"):
            target = _below_shared(config, number, one.path)
            place = Place(number, one, target, record, None)
        else:
            target, link = root / places.INPUTS / str(number), work.work_dir(root) / one.path
            place = Place(number, one, target, record, link)
        found.append(place)
    return found


def _below_shared(config: AgentConfig, number: int, path: str) -> Path:
    mount_path = config.shared_path or config.shared_root
    if problem := misplaced(path, mount_path):
        raise CommandRefused(INPUT_REFUSED, f"inputs.{number}.path: {problem}")
    shared = Path(config.shared_root)
    target = shared / path[len(mount_path) + 1 :]
    if not target.parent.resolve().is_relative_to(shared.resolve()):
        raise CommandRefused(
            INPUT_REFUSED,
            f"inputs.{number}.path: a link on the way to '{path}' leads out of the shared "
            "filesystem; give another path",
        )
    return target


def check_mounted(place: Place) -> None:
    mounted = Path(place.given.mounted)
    if os.environ.get("TRAINYARD_ROOT"):
        raise place.refused(
            "mode", "nodes of the local cloud that are processes mount no bucket; use mode 'copy'"
        )
    above = [path for path in (mounted, *mounted.parents) if os.path.ismount(path)]
    if above[0] == Path("/"):
        raise place.refused("mode", f"no bucket is mounted at '{mounted}'; look at s3Mounts")
    if not mounted.is_dir():
        raise place.refused("source", f"there is no object below '{mounted}'")


def check_paths(config: AgentConfig, bundle: JobBundle) -> None:
    """Refuse a job that names the shared filesystem where its nodes do not have it.

    So it is with nodes of the local cloud that are processes and may mount nothing.
    """
    at = config.shared_path
    if not at or _same(at, config.shared_root):
        return
    given = [
        *((f"inputs.{n}.path", one.path) for n, one in enumerate(bundle.inputs)),
        *((f"job.arguments.{n}", text) for n, text in enumerate(bundle.arguments)),
        *((f"job.environment.{name}", text) for name, text in bundle.environment.items()),
    ]
    for field, text in given:
        if names_path(text, at):
            raise CommandRefused(
                INPUT_REFUSED,
                f"{field}: this cluster's nodes have nothing at '{at}': they are processes that "
                "may not mount it; start the local cloud as root or with --nodes machines, or "
                "name no path below it",
            )


def _same(one: str, other: str) -> bool:
    try:
        return one == other or os.path.samefile(one, other)
    except OSError:
        return False
