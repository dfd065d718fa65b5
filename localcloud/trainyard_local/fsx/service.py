"""FSx's operations: filesystems that are directories, and data repositories that are S3 prefixes.

States change in threads of their own some time after the call, as they do on AWS.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainyard_local.fsx import requests, subnets
from trainyard_local.fsx.errors import (
    BadRequest,
    DataRepositoryAssociationNotFound,
    DataRepositoryTaskExecuting,
    DataRepositoryTaskNotFound,
    FileSystemNotFound,
    IncompatibleParameterError,
    ServiceLimitExceeded,
)
from trainyard_local.fsx.objects import Copied, Repository, marks
from trainyard_local.fsx.state import RUNNING, Association, Filesystem, Resource, Task, new_id, now
from trainyard_local.local_cloud import LocalCloud

#: Quotas of FSx for Lustre: persistent file systems of an account, links of a file system.
MOST_FILESYSTEMS, MOST_LINKS = 100, 8
Answer = dict[str, Any]
R = TypeVar("R", bound=Resource)


@dataclass(frozen=True)
class Settings:
    """How long FSx takes, from an environment variable of the server."""

    seconds: float = 2.0

    @classmethod
    def from_env(cls) -> Settings:
        return cls(float(os.environ.get("TRAINYARD_LOCAL_FSX_SECONDS", "2")))


@dataclass
class Fsx:
    """All filesystems of one local cloud."""

    cloud: LocalCloud
    settings: Settings = field(default_factory=Settings.from_env)
    filesystems: dict[str, Filesystem] = field(default_factory=dict)
    associations: dict[str, Association] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.closing = threading.Event()
        #: (operation, token) -> the request, and the resource that it made.
        self._tokens: dict[tuple[str, str], tuple[str, Resource]] = {}

    def answer(self, operation: str, params: dict[str, Any]) -> Answer:
        """Raises errors.FsxError."""
        requests.check(operation, params)
        with self.lock:
            return _OPERATIONS[operation](self, params)

    def tags_of(self, arn: str) -> Mapping[str, str]:
        with self.lock:
            everything: Sequence[Resource] = [
                *self.filesystems.values(), *self.associations.values(), *self.tasks.values(),
            ]  # fmt: skip
            return next((dict(one.tags) for one in everything if _arn(one) == arn), {})

    def close(self) -> None:
        """End of the local cloud: no thread goes on."""
        self.closing.set()

    # -- what operations share --------------------------------------------------------------------

    def _once(self, operation: str, params: dict[str, Any], make: Callable[[], R]) -> R:
        """The same token with the same parameters gives what the first call made."""
        token, body = params.get("ClientRequestToken"), json.dumps(params, sort_keys=True)
        known = self._tokens.get((operation, token)) if token else None
        if known is not None:
            if known[0] != body:
                raise IncompatibleParameterError(
                    "The request uses the same client token as a previous request with other "
                    "parameters"
                )
            return known[1]  # type: ignore[return-value]
        made = make()
        if token:
            self._tokens[operation, token] = (body, made)
        return made

    def _later(self, work: Callable[[], None]) -> None:
        """After the time that FSx takes; not at all where the cloud ends before."""

        def run() -> None:
            if not self.closing.wait(self.settings.seconds):
                work()

        threading.Thread(target=run, daemon=True, name="fsx").start()

    def _filesystem(self, fsx_id: str) -> Filesystem:
        found = self.filesystems.get(fsx_id)
        if found is None:
            raise FileSystemNotFound(f"File system '{fsx_id}' does not exist.")
        return found

    def _available(self, fsx_id: str) -> Filesystem:
        found = self._filesystem(fsx_id)
        if found.lifecycle != "AVAILABLE":
            raise BadRequest(f"File system '{fsx_id}' is {found.lifecycle}; it must be AVAILABLE")
        return found

    def _busy(self, fsx_id: str) -> bool:
        mine = (task for task in self.tasks.values() if task.filesystem == fsx_id)
        return any(task.lifecycle in RUNNING for task in mine)

    def _links(self, fsx_id: str) -> list[Association]:
        return [one for one in self.associations.values() if one.filesystem == fsx_id]

    # -- file systems -----------------------------------------------------------------------------

    def create_filesystem(self, params: dict[str, Any]) -> Answer:
        requests.check_filesystem(params)
        network = subnets.require(params["SubnetIds"][0])

        def make() -> Filesystem:
            if len(self.filesystems) >= MOST_FILESYSTEMS:
                raise ServiceLimitExceeded("The limit of file systems of this account is reached")
            made = Filesystem(self.cloud, params, new_id("fs"), network=network)
            self.filesystems[made.id] = made
            self._later(lambda: self._create(made))
            return made

        return {"FileSystem": self._once("CreateFileSystem", params, make).described()}

    def _create(self, filesystem: Filesystem) -> None:
        with self.lock:
            if filesystem.lifecycle != "CREATING":
                return
            filesystem.directory.mkdir(parents=True, exist_ok=True)
            filesystem.link.symlink_to(filesystem.id)
            filesystem.lifecycle = "AVAILABLE"

    def describe_filesystems(self, params: dict[str, Any]) -> Answer:
        wanted = params.get("FileSystemIds")
        found = (
            [self._filesystem(fsx_id) for fsx_id in wanted]
            if wanted
            else list(self.filesystems.values())
        )
        return _paged("FileSystems", found, params)

    def delete_filesystem(self, params: dict[str, Any]) -> Answer:
        filesystem = self._filesystem(params["FileSystemId"])
        if self._busy(filesystem.id):
            raise BadRequest("A data repository task is in a PENDING or EXECUTING state")
        if filesystem.lifecycle == "CREATING":
            raise BadRequest("The file system is being created")
        if filesystem.lifecycle != "DELETING":
            filesystem.lifecycle = "DELETING"
            self._later(lambda: self._delete(filesystem))
        return {"FileSystemId": filesystem.id, "Lifecycle": "DELETING"}

    def remove(self, filesystem: Filesystem) -> None:
        """At once, whatever runs on it: it goes with what it was made with."""
        filesystem.lifecycle = "DELETING"
        self._delete(filesystem)

    def _delete(self, filesystem: Filesystem) -> None:
        filesystem.link.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            shutil.rmtree(filesystem.directory)
        with self.lock:
            self.filesystems.pop(filesystem.id, None)
            for link in self._links(filesystem.id):
                self.associations.pop(link.id, None)

    # -- links to data repositories ---------------------------------------------------------------

    def create_association(self, params: dict[str, Any]) -> Answer:
        def make() -> Association:
            filesystem = self._available(params["FileSystemId"])
            if params.get("FileSystemPath") != "/" or not str(
                params["DataRepositoryPath"]
            ).startswith("s3://"):
                raise BadRequest("the local cloud links the whole file system (/) to s3:// only")
            if self._links(filesystem.id):
                raise BadRequest(
                    "A data repository association with an overlapping file system path exists"
                )
            made = Association(self.cloud, params, new_id("dra"))
            self.associations[made.id] = made
            self._later(lambda: self._link(filesystem, made))
            return made

        made = self._once("CreateDataRepositoryAssociation", params, make)
        return {"Association": made.described()}

    def _link(self, filesystem: Filesystem, link: Association) -> None:
        """Import what is there. AWS brings a file's content when it is first read."""
        repository = Repository.of(self.cloud, link.repository)
        try:
            repository.look()
            if link.request.get("BatchImportMetaDataOnCreate"):
                repository.import_into(filesystem.directory)
                filesystem.exported.update(marks(filesystem.directory))
        except Exception as error:  # noqa: BLE001  (whatever S3 says is the link's failure)
            link.failure, link.lifecycle = str(error)[:256], "FAILED"
            return
        link.lifecycle = "AVAILABLE"

    def update_association(self, params: dict[str, Any]) -> Answer:
        link = self._association(params["AssociationId"])
        if link.lifecycle != "AVAILABLE":
            raise BadRequest(f"The data repository association is {link.lifecycle}")
        link.request = {**link.request, "S3": {**(link.request.get("S3") or {}), **params["S3"]}}
        link.lifecycle = "UPDATING"
        self._later(link.updated)
        return {"Association": link.described()}

    def _association(self, association_id: str) -> Association:
        found = self.associations.get(association_id)
        if found is None:
            raise DataRepositoryAssociationNotFound(f"'{association_id}' does not exist.")
        return found

    def describe_associations(self, params: dict[str, Any]) -> Answer:
        wanted = params.get("AssociationIds")
        found = (
            [self._association(one) for one in wanted]
            if wanted
            else list(self.associations.values())
        )
        named = {"file-system-id": lambda one: one.filesystem}
        return _paged("Associations", _filtered(found, params, named), params)

    # -- tasks ------------------------------------------------------------------------------------

    def create_task(self, params: dict[str, Any]) -> Answer:
        def make() -> Task:
            filesystem = self._available(params["FileSystemId"])
            links = [one for one in self._links(filesystem.id) if one.lifecycle == "AVAILABLE"]
            if not links:
                raise BadRequest("No data repository is linked to the file system")
            requests.check_report(params, f"{links[0].repository}/")
            if links[0].exports_itself:
                raise BadRequest("Automatic export and export tasks cannot run at the same time")
            if self._busy(filesystem.id):
                raise DataRepositoryTaskExecuting("A data repository task is executing")
            made = Task(self.cloud, params, new_id("task"), lifecycle="PENDING")
            self.tasks[made.id] = made
            self._later(lambda: self._export(filesystem, links[0], made))
            return made

        made = self._once("CreateDataRepositoryTask", params, make)
        return {"DataRepositoryTask": made.described()}

    def _export(self, filesystem: Filesystem, link: Association, task: Task) -> None:
        task.lifecycle = "EXECUTING"
        repository = Repository.of(self.cloud, link.repository)
        try:
            repository.look()
            copied = repository.export_from(filesystem.directory, filesystem.exported)
            if copied.failed:
                _report(repository, task, copied)
        except Exception as error:  # noqa: BLE001  (whatever S3 says is the task's failure)
            task.failure, task.lifecycle, task.ended_at = str(error)[:256], "FAILED", now()
            return
        task.done, task.failed, task.ended_at = copied.done, len(copied.failed), now()
        if copied.failed:
            task.failure = f"{len(copied.failed)} files could not be exported"
        task.lifecycle = "FAILED" if copied.failed else "SUCCEEDED"

    def describe_tasks(self, params: dict[str, Any]) -> Answer:
        wanted = params.get("TaskIds")
        if wanted and (unknown := [one for one in wanted if one not in self.tasks]):
            raise DataRepositoryTaskNotFound(f"'{unknown[0]}' does not exist.")
        found = [self.tasks[one] for one in wanted] if wanted else list(self.tasks.values())
        named = {
            "file-system-id": lambda one: one.filesystem,
            "task-lifecycle": lambda one: one.lifecycle,
        }
        return _paged("DataRepositoryTasks", _filtered(found, params, named), params)

    def tag(self, params: dict[str, Any]) -> Answer:
        for one in (*self.filesystems.values(), *self.associations.values(), *self.tasks.values()):
            if _arn(one) == params["ResourceARN"]:
                one.tags.update({tag["Key"]: tag["Value"] for tag in params["Tags"]})
                return {}
        raise BadRequest(f"{params['ResourceARN']} does not exist.")


def _arn(resource: Resource) -> str:
    return str(resource.arn)  # type: ignore[attr-defined]


def _report(repository: Repository, task: Task, copied: Copied) -> None:
    path = str(task.request["Report"].get("Path", "")).rstrip("/")
    lines = [f'"{name}","{why}"' for name, why in copied.failed]
    if path:
        repository.put(f"{path}/{task.id}/failures.csv", "\n".join(lines).encode())


def _filtered(
    found: Sequence[R], params: Mapping[str, Any], named: Mapping[str, Callable[[Any], str]]
) -> list[R]:
    kept = list(found)
    for one in params.get("Filters") or []:
        if one["Name"] not in named:
            raise BadRequest(f"the local cloud filters by {', '.join(named)}")
        kept = [each for each in kept if named[one["Name"]](each) in one["Values"]]
    return kept


def _paged(member: str, found: Sequence[Any], params: Mapping[str, Any]) -> Answer:
    start, most = _position(params.get("NextToken")), int(params.get("MaxResults") or 100)
    part = [one.described() for one in found[start : start + most]]
    rest = start + most < len(found)
    more = {"NextToken": b64encode(str(start + most).encode()).decode()} if rest else {}
    return {member: part, **more}


def _position(token: str | None) -> int:
    try:
        return int(b64decode(token)) if token else 0
    except ValueError:
        raise BadRequest("The NextToken is not valid") from None


_OPERATIONS: Mapping[str, Callable[[Fsx, dict[str, Any]], Answer]] = {
    "CreateFileSystem": Fsx.create_filesystem,
    "DescribeFileSystems": Fsx.describe_filesystems,
    "DeleteFileSystem": Fsx.delete_filesystem,
    "CreateDataRepositoryAssociation": Fsx.create_association,
    "UpdateDataRepositoryAssociation": Fsx.update_association,
    "DescribeDataRepositoryAssociations": Fsx.describe_associations,
    "CreateDataRepositoryTask": Fsx.create_task,
    "DescribeDataRepositoryTasks": Fsx.describe_tasks,
    "TagResource": Fsx.tag,
}
