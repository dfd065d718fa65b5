"""In-memory twins of FSx and EC2's subnets, as strict as those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainyard.aws import fsx_requests
from trainyard.domain import errors
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.filesystems import TaskEnd
from trainyard.domain.records import Cluster
from trainyard.outside.clock import Clock
from trainyard.outside.networks import Place
from trainyard.outside.seen_clusters import BackendRequest
from trainyard.outside.seen_filesystems import SeenFilesystem, SeenLink
from trainyard_contracts.places import CLUSTER_TAG, FILESYSTEM_TAG, RECORD_TAG, STAGE_TAG

NETWORK, ZONE = "vpc-0123456789abcdef0", "us-east-1a"


class MemoryNetworks:
    """Every subnet lies in one network and one zone, but those that a test puts elsewhere."""

    def __init__(self) -> None:
        self.elsewhere: dict[str, Place | None] = {}

    def places(self, subnet_ids: Sequence[str]) -> Mapping[str, Place]:
        usual = Place(NETWORK, ZONE)
        found = {subnet: self.elsewhere.get(subnet, usual) for subnet in subnet_ids}
        return {subnet: place for subnet, place in found.items() if place is not None}


@dataclass
class MemoryTask:
    filesystem: str
    end: TaskEnd = field(default_factory=lambda: TaskEnd("running"))


class MemoryLustre:
    """FSx in memory.

    Tests move what is there with `advance`, `link_is` and `end`, or make calls fail by `refuse`.
    """

    def __init__(self, clock: Clock, stage: str) -> None:
        self._clock, self._stage = clock, stage
        self.there: dict[str, SeenFilesystem] = {}
        self.links: dict[str, SeenLink] = {}
        self.linked_to: dict[str, str] = {}  # link -> filesystem
        self.tasks: dict[str, MemoryTask] = {}
        self.tokens: dict[str, str] = {}
        self.by_itself: dict[str, bool] = {}  # link -> FSx exports by itself
        self.deleted: list[str] = []
        self.refuse: dict[str, Exception] = {}
        self.used: int | None = 4096

    def _maybe_refuse(self, operation: str) -> None:
        if operation in self.refuse:
            raise self.refuse[operation]

    def plan(self, filesystem: Filesystem) -> list[BackendRequest]:
        request = fsx_requests.create(filesystem, self._stage)
        return [BackendRequest("CreateFileSystem", request, {})]

    def create(self, filesystem: Filesystem) -> SeenFilesystem:
        self._maybe_refuse("create")
        token = filesystem.token(self._stage, "create")
        if token in self.tokens:
            return self.there[self.tokens[token]]
        fsx_id = f"fs-{len(self.tokens) + 1:017x}"
        self.tokens[token] = fsx_id
        self.there[fsx_id] = SeenFilesystem(
            fsx_id,
            f"arn:aws:fsx:us-east-1:123456789012:file-system/{fsx_id}",
            "coming",
            "CREATING",
            f"{fsx_id}.fsx.us-east-1.amazonaws.com",
            "abcdefgh",
            NETWORK,
            tags={
                STAGE_TAG: self._stage,
                FILESYSTEM_TAG: filesystem.name,
                RECORD_TAG: filesystem.mark,
            },
            created_at=self._clock.now(),
        )
        return self.there[fsx_id]

    def find(self, filesystem: Filesystem) -> SeenFilesystem | None:
        return next(
            (one for one in self.tagged() if one.tags.get(RECORD_TAG) == filesystem.mark), None
        )

    def describe(self, fsx_id: str) -> SeenFilesystem | None:
        return self.there.get(fsx_id)

    def advance(self, fsx_id: str, life: str, said: str = "", message: str = "") -> None:
        self.there[fsx_id] = replace(
            self.there[fsx_id],
            life=life,  # type: ignore[arg-type]
            said=said or life.upper(),
            failure_message=message,
        )

    def link(self, filesystem: Filesystem) -> str:
        self._maybe_refuse("link")
        assert filesystem.fsx_id is not None
        assert self.there[filesystem.fsx_id].life == "there"
        link = f"dra-{filesystem.fsx_id.removeprefix('fs-')}"
        self.links.setdefault(link, SeenLink("coming", "CREATING"))
        self.linked_to[link] = filesystem.fsx_id
        self.by_itself.setdefault(link, filesystem.exports_itself)
        return link

    def link_is(self, fsx_id: str, life: str, message: str = "") -> None:
        link = next(link for link, of in self.linked_to.items() if of == fsx_id)
        self.links[link] = SeenLink(life, life.upper(), message)  # type: ignore[arg-type]

    def linked(self, association_id: str) -> SeenLink | None:
        return self.links.get(association_id)

    def exports_itself(self, filesystem: Filesystem, on: bool) -> None:
        self._maybe_refuse("exports_itself")
        assert filesystem.association_id is not None
        self.by_itself[filesystem.association_id] = on

    def export(self, filesystem: Filesystem, number: int) -> str:
        self._maybe_refuse("export")
        assert filesystem.fsx_id is not None
        token = filesystem.token(self._stage, f"export-{number}")
        if token in self.tokens:
            return self.tokens[token]
        assert not self.by_itself[filesystem.association_id or ""]
        if self.busy(filesystem.fsx_id):
            raise errors.ConflictError("an existing data repository task is executing")
        task = f"task-{len(self.tokens) + 1:017x}"
        self.tokens[token] = task
        self.tasks[task] = MemoryTask(filesystem.fsx_id)
        return task

    def task(self, task_id: str) -> TaskEnd | None:
        return self.tasks[task_id].end if task_id in self.tasks else None

    def end(self, end: TaskEnd) -> None:
        """The newest task ends so."""
        list(self.tasks.values())[-1].end = end

    def busy(self, fsx_id: str) -> str:
        mine = ((name, task) for name, task in self.tasks.items() if task.filesystem == fsx_id)
        return next((name for name, task in mine if task.end.life == "running"), "")

    def delete(self, filesystem: Filesystem) -> None:
        self._maybe_refuse("delete")
        assert filesystem.fsx_id is not None
        if filesystem.fsx_id in self.there:
            assert not self.busy(filesystem.fsx_id)
            self.deleted.append(filesystem.fsx_id)
            self.advance(filesystem.fsx_id, "going", "DELETING")

    def gone(self, fsx_id: str) -> None:
        del self.there[fsx_id]

    def tagged(self) -> list[SeenFilesystem]:
        ours = (one for one in self.there.values() if one.tags.get(STAGE_TAG) == self._stage)
        return [one for one in ours if FILESYSTEM_TAG in one.tags]

    def make_with(self, cluster: Cluster) -> str:
        """What a backend does that makes a filesystem with its cluster, and links it."""
        fsx_id = f"fs-{len(self.there) + 0xC1:017x}"
        tags = {STAGE_TAG: self._stage, CLUSTER_TAG: cluster.name, RECORD_TAG: cluster.mark}
        self.there[fsx_id] = SeenFilesystem(fsx_id, "", "there", "AVAILABLE", tags=tags)
        link = f"dra-{fsx_id.removeprefix('fs-')}"
        self.links[link], self.linked_to[link] = SeenLink("there", "AVAILABLE"), fsx_id
        self.by_itself[link] = False
        return fsx_id

    def made_with(self, cluster: Cluster) -> SeenFilesystem | None:
        marks = {CLUSTER_TAG: cluster.name, RECORD_TAG: cluster.mark}
        found = (one for one in self.there.values() if marks.items() <= one.tags.items())
        return next(found, None)

    def link_of(self, fsx_id: str) -> str:
        return next((link for link, of in self.linked_to.items() if of == fsx_id), "")

    def used_bytes(self, fsx_id: str) -> int | None:
        return self.used
