"""Calls of FSx fit botocore's model, and what FSx says becomes our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import botocore.session
import pytest
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st
from tests.support.botocore_model import request_problems
from tests.support.filesystem_parts import AT, filesystem, filesystem_spec
from tests.support.memory import MemoryClock
from tests.support.parallelcluster_specs import spec as spec_of_queues

from trainyard.app.filesystems.archives import as_filesystem
from trainyard.aws import fsx_requests
from trainyard.aws.fsx import Fsx
from trainyard.aws.networks import Subnets
from trainyard.domain import errors
from trainyard.domain.archive_records import Archive
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.records import Cluster
from trainyard.outside.networks import Place
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.filesystems import THROUGHPUT

FSX_ID, LINK, TASK = "fs-0123456789abcdef0", "dra-0123456789abcdef0", "task-0123456789abcdef0"
CLUSTER = Cluster(
    name="demo",
    created_at=AT,
    updated_at=AT,
    spec=read_cluster_spec(
        spec_of_queues(fsx={"capacityGib": 1200, "archive": "s3://my-archive/lab"})
    ),
    archive=Archive(fsx_id=FSX_ID, association_id=LINK),
)
DESCRIBED = {
    "FileSystemId": FSX_ID,
    "Lifecycle": "AVAILABLE",
    "DNSName": f"{FSX_ID}.fsx.us-east-1.amazonaws.com",
    "VpcId": "vpc-0123456789abcdef0",
    "LustreConfiguration": {"MountName": "abcdefgh"},
    "CreationTime": AT,
}


def client(service: str) -> Any:
    return botocore.session.get_session().create_client(
        service, "us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )


@pytest.fixture(scope="module")
def clients() -> Mapping[str, Any]:
    return {service: client(service) for service in ("fsx", "cloudwatch", "ec2")}


def adapter(clients: Mapping[str, Any]) -> Fsx:
    return Fsx(clients["fsx"], clients["cloudwatch"], "trainyard", MemoryClock())


def known(**more: Any) -> Filesystem:
    return filesystem(fsx_id=FSX_ID, association_id=LINK, **more)


changes = st.lists(st.sampled_from(["new", "changed", "deleted"]), unique=True, max_size=3)


@given(
    deployment=st.sampled_from(sorted(THROUGHPUT)),
    size=st.sampled_from([1200, 2400, 48000]),
    compress=st.booleans(),
    imported=changes,
    exported=changes,
)
def test_every_request_fits_the_model(
    deployment: str, size: int, compress: bool, imported: list[str], exported: list[str]
) -> None:
    spec = filesystem_spec(
        deployment=deployment,
        storageGib=size,
        compress=compress,
        tags={"team": "vision"},
        repository={
            "source": "s3://my-archive/lab",
            "importChanges": imported,
            "exportChanges": exported,
        },
    )
    of = filesystem(spec, fsx_id=FSX_ID, association_id=LINK)
    requests = {
        "CreateFileSystem": fsx_requests.create(of, "trainyard"),
        "CreateDataRepositoryAssociation": fsx_requests.link(of, "trainyard", FSX_ID),
        "UpdateDataRepositoryAssociation": fsx_requests.update_link(
            of, exports_itself=False, token=of.token("trainyard", "x")
        ),
        "CreateDataRepositoryTask": fsx_requests.export(of, "trainyard", 3),
        "DeleteFileSystem": fsx_requests.delete(of, "trainyard"),
    }
    for operation, request in requests.items():
        assert request_problems("fsx", operation, request) == [], operation


def test_the_report_of_an_export_lies_within_the_repository() -> None:
    export = fsx_requests.export(known(), "trainyard", 1)
    link = fsx_requests.link(known(), "trainyard", FSX_ID)
    assert export["Report"]["Path"].startswith(link["DataRepositoryPath"])


def test_what_is_made_says_whose_it_is() -> None:
    tags = {tag["Key"]: tag["Value"] for tag in fsx_requests.tags(known(), "trainyard")}
    assert tags == {
        "trainyard:stage": "trainyard",
        "trainyard:filesystem": "lab",
        "trainyard:record": f"1/{AT.isoformat()}",
    }


@pytest.mark.parametrize(
    ("lifecycle", "life"),
    [
        ("CREATING", "coming"),
        ("AVAILABLE", "there"),
        ("UPDATING", "there"),
        ("MISCONFIGURED", "there"),
        ("MISCONFIGURED_UNAVAILABLE", "broken"),
        ("FAILED", "broken"),
        ("DELETING", "going"),
    ],
)
def test_each_state_of_fsx_has_our_word(
    clients: Mapping[str, Any], lifecycle: str, life: str
) -> None:
    with Stubber(clients["fsx"]) as stub:
        answer = {"FileSystems": [{**DESCRIBED, "Lifecycle": lifecycle}]}
        stub.add_response("describe_file_systems", answer, {"FileSystemIds": [FSX_ID]})
        seen = adapter(clients).describe(FSX_ID)
    assert seen is not None
    assert (seen.life, seen.said, seen.mount_name) == (life, lifecycle, "abcdefgh")


def test_every_state_of_the_model_has_a_word(clients: Mapping[str, Any]) -> None:
    from trainyard.aws import fsx

    model = clients["fsx"].meta.service_model
    assert set(model.shape_for("FileSystemLifecycle").enum) == set(fsx._LIVES)
    assert set(model.shape_for("DataRepositoryLifecycle").enum) == set(fsx._LINKS)
    running = {"PENDING", "EXECUTING", "CANCELING"}
    assert set(model.shape_for("DataRepositoryTaskLifecycle").enum) == {*fsx._TASKS, *running}


def test_what_fsx_does_not_know_is_none(clients: Mapping[str, Any]) -> None:
    lustre = adapter(clients)
    with Stubber(clients["fsx"]) as stub:
        stub.add_client_error("describe_file_systems", "FileSystemNotFound")
        assert lustre.describe(FSX_ID) is None
        name = "DataRepositoryAssociationNotFound"
        stub.add_client_error("describe_data_repository_associations", name)
        assert lustre.linked(LINK) is None
        stub.add_client_error("describe_data_repository_tasks", "DataRepositoryTaskNotFound")
        assert lustre.task(TASK) is None
        stub.add_client_error("delete_file_system", "FileSystemNotFound")
        lustre.delete(known())


def test_one_that_carries_this_records_mark_is_taken_and_not_made_twice(
    clients: Mapping[str, Any],
) -> None:
    tags = fsx_requests.tags(known(), "trainyard")
    with Stubber(clients["fsx"]) as stub:
        other = {**DESCRIBED, "FileSystemId": "fs-0aaaaaaaaaaaaaaa0"}
        stub.add_response("describe_file_systems", {"FileSystems": [other], "NextToken": "x"}, {})
        mine = {"FileSystems": [{**DESCRIBED, "Tags": tags}]}
        stub.add_response("describe_file_systems", mine, {"NextToken": "x"})
        assert adapter(clients).create(filesystem()).fsx_id == FSX_ID


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("ServiceLimitExceeded", errors.BackendRejected),
        ("InvalidNetworkSettings", errors.BackendRejected),
        ("ThrottlingException", errors.Throttled),
        ("InternalServerError", errors.RetryableError),
    ],
)
def test_a_refusal_keeps_awss_words(
    clients: Mapping[str, Any], code: str, error: type[Exception]
) -> None:
    with Stubber(clients["fsx"]) as stub:
        stub.add_response("describe_file_systems", {"FileSystems": []}, {})
        stub.add_client_error("create_file_system", code, "the words of AWS")
        with pytest.raises(error, match="the words of AWS"):
            adapter(clients).create(filesystem())


def test_the_filesystem_of_a_cluster_is_the_one_with_all_of_its_tags(
    clients: Mapping[str, Any],
) -> None:
    """Of an earlier cluster of the name, of another stack's, and the cluster's own."""

    def seen(number: int, stage: str, mark: str) -> dict[str, Any]:
        tags = {"trainyard:stage": stage, "trainyard:cluster": "demo", "trainyard:record": mark}
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        return {**DESCRIBED, "FileSystemId": f"fs-{number:017x}", "Tags": listed}

    old = seen(1, "trainyard", "1/2025")
    others, mine = seen(2, "other", CLUSTER.mark), seen(3, "trainyard", CLUSTER.mark)
    with Stubber(clients["fsx"]) as stub:
        stub.add_response("describe_file_systems", {"FileSystems": [old, others, mine]}, {})
        found = adapter(clients).made_with(CLUSTER)
        assert found is not None
        assert found.fsx_id == f"fs-{3:017x}"
        stub.add_response("describe_file_systems", {"FileSystems": [old, others]}, {})
        assert adapter(clients).made_with(CLUSTER) is None


def test_a_link_counts_if_it_is_of_the_whole_filesystem_even_one_that_failed(
    clients: Mapping[str, Any],
) -> None:
    def link(path: str, lifecycle: str) -> dict[str, Any]:
        return {"AssociationId": LINK, "FileSystemPath": path, "Lifecycle": lifecycle}

    with Stubber(clients["fsx"]) as stub:
        for links, expected in (
            ([link("/data", "AVAILABLE")], ""),
            ([link("/", "DELETING")], ""),
            ([link("/data", "AVAILABLE"), link("/", "FAILED")], LINK),
        ):
            stub.add_response("describe_data_repository_associations", {"Associations": links})
            assert adapter(clients).link_of(FSX_ID) == expected


def test_the_export_of_a_clusters_archive_fits_the_model() -> None:
    request = fsx_requests.export(as_filesystem(CLUSTER), "trainyard", 1)
    assert request_problems("fsx", "CreateDataRepositoryTask", request) == []
    assert request["FileSystemId"] == FSX_ID
    assert request["Report"]["Path"] == "s3://my-archive/lab/trainyard-export-reports/"


def test_a_task_that_runs_already_is_a_conflict_that_passes(clients: Mapping[str, Any]) -> None:
    with Stubber(clients["fsx"]) as stub:
        stub.add_client_error("create_data_repository_task", "DataRepositoryTaskExecuting", "busy")
        with pytest.raises(errors.ConflictError, match="busy"):
            adapter(clients).export(known(), 1)


def test_the_files_of_a_task_are_counted(clients: Mapping[str, Any]) -> None:
    task = {
        "TaskId": TASK,
        "Lifecycle": "FAILED",
        "Type": "EXPORT_TO_REPOSITORY",
        "CreationTime": AT,
        "Status": {"TotalCount": 9, "SucceededCount": 7, "FailedCount": 2},
        "FailureDetails": {"Message": "see the report"},
    }
    with Stubber(clients["fsx"]) as stub:
        stub.add_response("describe_data_repository_tasks", {"DataRepositoryTasks": [task]})
        end = adapter(clients).task(TASK)
    assert end is not None
    assert (end.life, end.files, end.failed_files, end.said) == ("failed", 9, 2, "see the report")


def test_how_full_it_is_is_the_newest_figure_or_unknown(clients: Mapping[str, Any]) -> None:
    points = [{"Timestamp": AT, "Sum": 5.0}, {"Timestamp": AT.replace(hour=11), "Sum": 4.0}]
    with Stubber(clients["cloudwatch"]) as stub:
        stub.add_response("get_metric_statistics", {"Datapoints": points})
        assert adapter(clients).used_bytes(FSX_ID) == 5
        stub.add_response("get_metric_statistics", {"Datapoints": []})
        assert adapter(clients).used_bytes(FSX_ID) is None
        stub.add_client_error("get_metric_statistics", "AccessDenied")
        assert adapter(clients).used_bytes(FSX_ID) is None


def test_a_subnet_that_there_is_not_is_left_out(clients: Mapping[str, Any]) -> None:
    answer = {"SubnetId": "subnet-1", "VpcId": "vpc-1", "AvailabilityZone": "us-east-1b"}
    with Stubber(clients["ec2"]) as stub:
        asked = {"Filters": [{"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}]}
        stub.add_response("describe_subnets", {"Subnets": [answer]}, asked)
        found = Subnets(clients["ec2"]).places(["subnet-1", "subnet-2"])
    assert found == {"subnet-1": Place("vpc-1", "us-east-1b")}
