"""FSx for Lustre: each call of `fsx_requests.py`, and what FSx says in our words."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from trainyard.aws import fsx_requests
from trainyard.aws.refusals import Refusal, translated
from trainyard.domain import errors
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.filesystems import Life, TaskEnd, TaskLife
from trainyard.domain.records import Cluster
from trainyard.outside.clock import Clock
from trainyard.outside.seen_clusters import BackendRequest
from trainyard.outside.seen_filesystems import SeenFilesystem, SeenLink
from trainyard_contracts.places import CLUSTER_TAG, FILESYSTEM_TAG, RECORD_TAG, STAGE_TAG

_LOG = logging.getLogger(__name__)
#: FileSystemLifecycle. One that is UPDATING or MISCONFIGURED can be read and written.
_LIVES: Mapping[str, Life] = {
    "CREATING": "coming",
    "AVAILABLE": "there",
    "UPDATING": "there",
    "MISCONFIGURED": "there",
    "MISCONFIGURED_UNAVAILABLE": "broken",
    "FAILED": "broken",
    "DELETING": "going",
}
#: DataRepositoryLifecycle. Through one that is MISCONFIGURED nothing is exported.
_LINKS: Mapping[str, Life] = {
    "CREATING": "coming",
    "UPDATING": "coming",
    "AVAILABLE": "there",
    "MISCONFIGURED": "broken",
    "FAILED": "broken",
    "DELETING": "going",
}
_TASKS: Mapping[str, TaskLife] = {
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELED": "failed",
}
_MISSING = {
    "FileSystemNotFound": errors.NotFound,
    "DataRepositoryAssociationNotFound": errors.NotFound,
    "DataRepositoryTaskNotFound": errors.NotFound,
}
#: A metric's points of one minute come some minutes late.
_METRIC_MINUTES = 15


class Fsx:
    """The port `Lustre` on AWS."""

    def __init__(self, fsx: Any, cloudwatch: Any, stage: str, clock: Clock) -> None:
        self._fsx, self._cloudwatch, self._stage, self._clock = fsx, cloudwatch, stage, clock

    def plan(self, filesystem: Filesystem) -> builtins.list[BackendRequest]:
        create = fsx_requests.create(filesystem, self._stage)
        requests = [BackendRequest("CreateFileSystem", create, {})]
        if filesystem.spec.repository is not None:
            link = fsx_requests.link(filesystem, self._stage, "fs-00000000000000000")
            requests.append(BackendRequest("CreateDataRepositoryAssociation", link, {}))
        return requests

    def create(self, filesystem: Filesystem) -> SeenFilesystem:
        there = self.find(filesystem)  # FSx says of no token how long it is known
        if there is not None:
            return there
        request = fsx_requests.create(filesystem, self._stage)
        answer = _asked("create the filesystem", lambda: self._fsx.create_file_system(**request))
        return _seen(answer["FileSystem"])

    def find(self, filesystem: Filesystem) -> SeenFilesystem | None:
        return next((one for one in self.tagged() if _is_of(one, filesystem)), None)

    def describe(self, fsx_id: str) -> SeenFilesystem | None:
        try:
            answer = _asked(
                "describe the filesystem",
                lambda: self._fsx.describe_file_systems(FileSystemIds=[fsx_id]),
            )
        except errors.NotFound:
            return None
        return next(map(_seen, answer["FileSystems"]), None)

    def link(self, filesystem: Filesystem) -> str:
        request = fsx_requests.link(filesystem, self._stage, filesystem.fsx_id or "")
        links = self._links(filesystem.fsx_id or "")
        found = [one for one in links if one["Lifecycle"] != "FAILED"]
        if found:
            return str(found[0]["AssociationId"])
        answer = _asked(
            "link the filesystem to its repository",
            lambda: self._fsx.create_data_repository_association(**request),
        )
        return str(answer["Association"]["AssociationId"])

    def linked(self, association_id: str) -> SeenLink | None:
        try:
            answer = _asked(
                "describe the link to the repository",
                lambda: self._fsx.describe_data_repository_associations(
                    AssociationIds=[association_id]
                ),
            )
        except errors.NotFound:
            return None
        return next(map(_link, answer["Associations"]), None)

    def exports_itself(self, filesystem: Filesystem, on: bool) -> None:
        number = filesystem.export.number if filesystem.export else 0
        token = filesystem.token(self._stage, f"exports-itself-{number}-{on}")
        request = fsx_requests.update_link(filesystem, on, token)
        _asked(
            "change how the filesystem exports",
            lambda: self._fsx.update_data_repository_association(**request),
        )

    def export(self, filesystem: Filesystem, number: int) -> str:
        request = fsx_requests.export(filesystem, self._stage, number)
        answer = _asked(
            "export the filesystem", lambda: self._fsx.create_data_repository_task(**request)
        )
        return str(answer["DataRepositoryTask"]["TaskId"])

    def task(self, task_id: str) -> TaskEnd | None:
        try:
            answer = _asked(
                "describe the export",
                lambda: self._fsx.describe_data_repository_tasks(TaskIds=[task_id]),
            )
        except errors.NotFound:
            return None
        return next(map(_task, answer["DataRepositoryTasks"]), None)

    def busy(self, fsx_id: str) -> str:
        filters = [
            {"Name": "file-system-id", "Values": [fsx_id]},
            {"Name": "task-lifecycle", "Values": ["PENDING", "EXECUTING", "CANCELING"]},
        ]
        found = self._all(
            self._fsx.describe_data_repository_tasks, "DataRepositoryTasks", Filters=filters
        )
        return next((str(task["TaskId"]) for task in found), "")

    def delete(self, filesystem: Filesystem) -> None:
        request = fsx_requests.delete(filesystem, self._stage)
        try:
            _asked("delete the filesystem", lambda: self._fsx.delete_file_system(**request))
        except errors.NotFound:
            return

    def made_with(self, cluster: Cluster) -> SeenFilesystem | None:
        tags = {STAGE_TAG: self._stage, CLUSTER_TAG: cluster.name, RECORD_TAG: cluster.mark}
        found = map(_seen, self._all(self._fsx.describe_file_systems, "FileSystems"))
        return next((one for one in found if tags.items() <= one.tags.items()), None)

    def link_of(self, fsx_id: str) -> str:
        whole = [one for one in self._links(fsx_id) if one.get("FileSystemPath") == "/"]
        return str(whole[0]["AssociationId"]) if whole else ""

    def tagged(self) -> builtins.list[SeenFilesystem]:
        # What ParallelCluster makes for a cluster of ours has the stack's tag, and no name of ours.
        found = map(_seen, self._all(self._fsx.describe_file_systems, "FileSystems"))
        ours = (one for one in found if one.tags.get(STAGE_TAG) == self._stage)
        return [one for one in ours if FILESYSTEM_TAG in one.tags]

    def used_bytes(self, fsx_id: str) -> int | None:
        now = self._clock.now()
        try:
            answer = _asked(
                "read the filesystem's metrics",
                lambda: self._cloudwatch.get_metric_statistics(
                    Namespace="AWS/FSx",
                    MetricName="PhysicalDiskUsage",
                    Dimensions=[{"Name": "FileSystemId", "Value": fsx_id}],
                    StartTime=now - timedelta(minutes=_METRIC_MINUTES),
                    EndTime=now,
                    Period=60,
                    Statistics=["Sum"],
                ),
            )
        except errors.TrainyardError as error:
            _LOG.warning("what filesystem %s holds is not known: %s", fsx_id, error.detail)
            return None
        points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
        return int(points[-1]["Sum"]) if points else None

    def _links(self, fsx_id: str) -> list[Any]:
        filters = [{"Name": "file-system-id", "Values": [fsx_id]}]
        found = self._all(
            self._fsx.describe_data_repository_associations, "Associations", Filters=filters
        )
        return [one for one in found if one["Lifecycle"] != "DELETING"]

    def _all(self, operation: Callable[..., Any], member: str, **request: Any) -> Iterator[Any]:
        token: str | None = None
        while True:
            asked = {**request, **({"NextToken": token} if token else {})}
            answer = _asked("list what FSx has", partial(operation, **asked))
            yield from answer[member]
            if "NextToken" not in answer:
                return
            token = answer["NextToken"]


def _asked(doing: str, call: Callable[[], Any]) -> Any:
    """The answer of FSx, or its refusal as one of ours."""
    known = {**_MISSING, "DataRepositoryTaskExecuting": errors.ConflictError}
    with translated(doing, known, _rejected):
        return call()


def _rejected(refusal: Refusal) -> errors.TrainyardError:
    return errors.BackendRejected(refusal.text)


def _is_of(seen: SeenFilesystem, filesystem: Filesystem) -> bool:
    named = seen.tags.get(FILESYSTEM_TAG) == filesystem.name
    return named and seen.tags.get(RECORD_TAG) == filesystem.mark


def _seen(answer: Mapping[str, Any]) -> SeenFilesystem:
    return SeenFilesystem(
        fsx_id=str(answer["FileSystemId"]),
        arn=str(answer.get("ResourceARN", "")),
        life=_LIVES.get(str(answer["Lifecycle"]), "coming"),
        said=str(answer["Lifecycle"]),
        dns_name=str(answer.get("DNSName", "")),
        mount_name=str((answer.get("LustreConfiguration") or {}).get("MountName", "")),
        vpc=str(answer.get("VpcId", "")),
        subnet=str(next(iter(answer.get("SubnetIds") or []), "")),
        failure_message=_message(answer),
        tags={tag["Key"]: tag["Value"] for tag in answer.get("Tags") or []},
        created_at=answer.get("CreationTime"),
    )


def _link(answer: Mapping[str, Any]) -> SeenLink:
    said = str(answer["Lifecycle"])
    return SeenLink(_LINKS.get(said, "coming"), said, _message(answer))


def _task(answer: Mapping[str, Any]) -> TaskEnd:
    status = answer.get("Status") or {}
    return TaskEnd(
        life=_TASKS.get(str(answer["Lifecycle"]), "running"),
        files=int(status.get("TotalCount") or 0),
        failed_files=int(status.get("FailedCount") or 0),
        said=_message(answer),
    )


def _message(answer: Mapping[str, Any]) -> str:
    return str((answer.get("FailureDetails") or {}).get("Message", ""))
