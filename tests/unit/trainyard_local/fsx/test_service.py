"""FSx's operations: what is made, in which states, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.botocore_model import request_problems
from tests.support.filesystem_parts import filesystem, filesystem_spec
from tests.support.waiting import eventually

from trainyard.aws import fsx_requests
from trainyard_local.fsx import errors, service
from trainyard_local.fsx.service import Fsx

Json = dict[str, Any]
RECORD = filesystem()


def create(fsx: Fsx, **changes: Any) -> Json:
    """As Trainyard asks."""
    request = {**fsx_requests.create(RECORD, "trainyard"), **changes}
    return dict(fsx.answer("CreateFileSystem", request)["FileSystem"])


def state(fsx: Fsx, fsx_id: str) -> str:
    found = fsx.answer("DescribeFileSystems", {"FileSystemIds": [fsx_id]})
    return str(found["FileSystems"][0]["Lifecycle"])


def available(fsx: Fsx, **changes: Any) -> Json:
    made = create(fsx, **changes)
    eventually("it is AVAILABLE", lambda: state(fsx, made["FileSystemId"]) == "AVAILABLE", 10)
    return made


def linked(fsx: Fsx, fsx_id: str, **changes: Any) -> Json:
    request = {**fsx_requests.link(RECORD, "trainyard", fsx_id), **changes}
    link = fsx.answer("CreateDataRepositoryAssociation", request)["Association"]
    wanted = {"AssociationIds": [link["AssociationId"]]}

    def settled() -> Json | None:
        (now,) = fsx.answer("DescribeDataRepositoryAssociations", wanted)["Associations"]
        return dict(now) if now["Lifecycle"] != "CREATING" else None

    return dict(eventually("the link is settled", settled, 10))


def export(fsx: Fsx, fsx_id: str, number: int = 1) -> Json:
    request = fsx_requests.export(RECORD.changed(fsx_id=fsx_id), "trainyard", number)
    return dict(fsx.answer("CreateDataRepositoryTask", request)["DataRepositoryTask"])


def over(fsx: Fsx, task: Json) -> Json:
    def ended() -> Json | None:
        wanted = {"TaskIds": [task["TaskId"]]}
        (now,) = fsx.answer("DescribeDataRepositoryTasks", wanted)["DataRepositoryTasks"]
        return dict(now) if now["Lifecycle"] not in ("PENDING", "EXECUTING") else None

    return dict(eventually("the task ends", ended, 10))


def test_a_file_system_is_being_created_first_and_has_a_directory_when_it_is_available(
    fsx: Fsx,
) -> None:
    made = create(fsx)
    assert made["Lifecycle"] == "CREATING"
    filesystem = fsx.filesystems[made["FileSystemId"]]
    assert not filesystem.directory.exists()
    eventually("it is AVAILABLE", lambda: filesystem.lifecycle == "AVAILABLE", 10)
    assert filesystem.link.resolve() == filesystem.directory.resolve()


def test_the_same_token_gives_the_same_one_and_other_parameters_are_refused(fsx: Fsx) -> None:
    first = create(fsx)
    assert create(fsx)["FileSystemId"] == first["FileSystemId"]
    with pytest.raises(errors.IncompatibleParameterError):
        create(fsx, StorageCapacity=2400)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"StorageCapacity": 1300}, errors.BadRequest),
        ({"FileSystemType": "NFS"}, errors.BadRequest),
        ({"FileSystemType": "WINDOWS"}, errors.NotDone),
        ({"KmsKeyId": "a-key"}, errors.NotDone),
        ({"SubnetIds": ["subnet-000000001"]}, errors.InvalidNetworkSettings),
        ({"SubnetIds": ["subnet-00000001", "subnet-00000002"]}, errors.InvalidNetworkSettings),
        (
            {
                "LustreConfiguration": {
                    "DeploymentType": "PERSISTENT_2",
                    "PerUnitStorageThroughput": 100,
                }
            },
            errors.InvalidPerUnitStorageThroughput,
        ),
    ],
)
def test_what_fsx_refuses_is_refused(fsx: Fsx, changes: Json, error: type[errors.FsxError]) -> None:
    with pytest.raises(error):
        create(fsx, **changes)


def test_an_operation_that_is_not_done_is_named(fsx: Fsx) -> None:
    with pytest.raises(errors.NotDone, match="does not do fsx:CreateBackup"):
        fsx.answer("CreateBackup", {})


def test_there_is_a_limit_of_file_systems(fsx: Fsx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_FILESYSTEMS", 0)
    with pytest.raises(errors.ServiceLimitExceeded):
        create(fsx)


def test_a_link_imports_what_is_there_and_fails_without_its_bucket(fsx: Fsx, s3: Any) -> None:
    s3.put_object(Bucket="my-archive", Key="lab/a/b.txt", Body=b"there")
    first = available(fsx)
    assert linked(fsx, first["FileSystemId"])["Lifecycle"] == "AVAILABLE"
    directory = fsx.filesystems[first["FileSystemId"]].directory
    assert (directory / "a" / "b.txt").read_text() == "there"
    second = available(fsx, ClientRequestToken="other")
    path = "s3://no-such-bucket/lab/"
    failed = linked(
        fsx, second["FileSystemId"], DataRepositoryPath=path, ClientRequestToken="third"
    )
    assert failed["Lifecycle"] == "FAILED"
    assert failed["FailureDetails"]["Message"]


def test_nothing_is_linked_to_a_file_system_that_is_not_available(fsx: Fsx) -> None:
    fsx.close()  # what takes time never ends
    made = create(fsx)
    with pytest.raises(errors.BadRequest, match="must be AVAILABLE"):
        linked(fsx, made["FileSystemId"])


def test_an_export_copies_what_changed_and_counts_it(fsx: Fsx, s3: Any) -> None:
    fsx_id = available(fsx)["FileSystemId"]
    linked(fsx, fsx_id)
    directory = fsx.filesystems[fsx_id].directory
    (directory / "model.bin").write_bytes(b"weights")
    ended = over(fsx, export(fsx, fsx_id))
    assert (ended["Lifecycle"], ended["Status"]["TotalCount"]) == ("SUCCEEDED", 1)
    assert s3.get_object(Bucket="my-archive", Key="lab/model.bin")["Body"].read() == b"weights"
    again = over(fsx, export(fsx, fsx_id, 2))
    assert again["Status"]["TotalCount"] == 0


def test_files_that_cannot_be_exported_are_in_a_report(fsx: Fsx, s3: Any) -> None:
    fsx_id = available(fsx)["FileSystemId"]
    linked(fsx, fsx_id)
    long = fsx.filesystems[fsx_id].directory
    for _ in range(5):
        long /= "x" * 250
    long.mkdir(parents=True)
    (long / "file").touch()
    ended = over(fsx, export(fsx, fsx_id))
    assert (ended["Lifecycle"], ended["Status"]["FailedCount"]) == ("FAILED", 2)
    key = f"lab/trainyard-export-reports/{ended['TaskId']}/failures.csv"
    report = s3.get_object(Bucket="my-archive", Key=key)["Body"].read().decode()
    assert "longer than 1024 bytes" in report


def test_one_task_at_a_time_and_none_while_fsx_exports_by_itself(fsx: Fsx) -> None:
    fsx_id = available(fsx)["FileSystemId"]
    repository = {"source": "s3://my-archive/lab/", "exportChanges": ["new"]}
    itself = filesystem(filesystem_spec(repository=repository))
    link = linked(fsx, fsx_id, S3=fsx_requests.link(itself, "trainyard", fsx_id)["S3"])
    with pytest.raises(errors.BadRequest, match="cannot run at the same time"):
        export(fsx, fsx_id)
    known = itself.changed(association_id=link["AssociationId"], fsx_id=fsx_id)
    off = fsx_requests.update_link(known, exports_itself=False, token="off")
    fsx.answer("UpdateDataRepositoryAssociation", off)
    one = fsx.associations[link["AssociationId"]]
    eventually("the link is AVAILABLE again", lambda: one.lifecycle == "AVAILABLE", 10)
    fsx.closing.set()  # the task stays PENDING
    export(fsx, fsx_id)
    with pytest.raises(errors.DataRepositoryTaskExecuting):
        export(fsx, fsx_id, 2)
    with pytest.raises(errors.BadRequest, match="PENDING or EXECUTING"):
        fsx.answer("DeleteFileSystem", {"FileSystemId": fsx_id})


def test_a_deleted_file_system_goes_with_all_that_it_held(fsx: Fsx) -> None:
    fsx_id = available(fsx)["FileSystemId"]
    directory = fsx.filesystems[fsx_id].directory
    (directory / "file").touch()
    assert fsx.answer("DeleteFileSystem", {"FileSystemId": fsx_id})["Lifecycle"] == "DELETING"
    eventually("it is gone", lambda: fsx_id not in fsx.filesystems, 10)
    assert not directory.exists()
    with pytest.raises(errors.FileSystemNotFound):
        state(fsx, fsx_id)


def test_a_report_outside_of_the_repository_is_refused(fsx: Fsx) -> None:
    fsx_id = available(fsx)["FileSystemId"]
    linked(fsx, fsx_id)
    request = fsx_requests.export(RECORD.changed(fsx_id=fsx_id), "trainyard", 1)
    request["Report"]["Path"] = "s3://my-archive/labor/"
    with pytest.raises(errors.BadRequest, match="within the linked data repository"):
        fsx.answer("CreateDataRepositoryTask", request)


def test_lists_come_in_pages_and_by_filters(fsx: Fsx) -> None:
    for number in range(3):
        create(fsx, ClientRequestToken=str(number))
    first = fsx.answer("DescribeFileSystems", {"MaxResults": 2})
    more = fsx.answer("DescribeFileSystems", {"MaxResults": 2, "NextToken": first["NextToken"]})
    assert (len(first["FileSystems"]), len(more["FileSystems"])) == (2, 1)
    assert "NextToken" not in more
    none = {"Filters": [{"Name": "file-system-id", "Values": ["fs-00000000"]}]}
    assert fsx.answer("DescribeDataRepositoryTasks", none)["DataRepositoryTasks"] == []


def test_answers_are_json_and_requests_of_trainyard_are_of_the_model(fsx: Fsx) -> None:
    json.dumps(fsx.answer("DescribeFileSystems", {}))
    assert request_problems("fsx", "DeleteFileSystem", {"FileSystemId": "fs-00000000"}) == []
