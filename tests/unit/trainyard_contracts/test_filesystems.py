"""A filesystem's spec is refused for what FSx or Trainyard would refuse, by field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.filesystem_parts import filesystem_document, filesystem_spec
from tests.support.parallelcluster_specs import spec as parallelcluster_spec
from tests.support.spec_parts import cluster_spec

from trainyard_contracts.cluster_parts import Mountable
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.filesystems import FilesystemSpec
from trainyard_contracts.parallelcluster import ParallelClusterSpec

LAB = Mountable("fs-0123456789abcdef0", "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcd")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"storageGib": 1000}, "storageGib: 1000 is not offered; give 1200 or a multiple of 2400"),
        ({"storageGib": 3600}, "storageGib: 3600 is not offered"),
        ({"storageGib": 0}, "storageGib: 0 is not offered"),
        ({"throughput": 100}, "throughput: PERSISTENT_2 has one of 125, 250, 500, 1000"),
        ({"deployment": "SCRATCH_2", "throughput": 125}, "throughput: SCRATCH_2 has no choice"),
        ({"repository": None, "nightlyExport": "02:00Z"}, "nightlyExport: needs a repository"),
        (
            {
                "nightlyExport": "02:00Z",
                "repository": {"source": "s3://a-bucket/x/", "exportChanges": ["new"]},
            },
            "nightlyExport: FSx exports changes by itself",
        ),
        ({"nightlyExport": "24:00Z"}, "must|time of day|pattern"),
        ({"nightlyExport": "02:00"}, "pattern"),
        (
            {"repository": {"source": "s3://a-bucket/x/", "importChanges": ["new", "new"]}},
            "importChanges: names a change twice",
        ),
        ({"repository": {"source": "a-bucket/x/"}}, "pattern"),
        ({"tags": {"trainyard:stage": "x"}}, "tags: "),
        ({"subnetId": "subnet-1"}, "pattern"),
        ({"name": "no_underscore"}, "pattern"),
        ({"backend": "fsx"}, "Extra inputs"),
    ],
)
def test_a_mistake_is_refused_with_its_field(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FilesystemSpec.model_validate(filesystem_document(**given))


@pytest.mark.parametrize(
    ("deployment", "throughput"),
    [("PERSISTENT_2", 125), ("PERSISTENT_1", 50), ("SCRATCH_2", None)],
)
def test_without_a_throughput_it_is_the_least_of_the_deployment(
    deployment: str, throughput: int | None
) -> None:
    assert filesystem_spec(deployment=deployment).unit_throughput == throughput


def test_files_are_never_deleted_because_an_object_was_unless_that_is_asked_for() -> None:
    repository = filesystem_spec().repository
    assert repository is not None
    assert repository.import_changes == ["new", "changed"]
    assert repository.export_changes == []


# clusters that name one


def named(**shared: Any) -> Any:
    given = {"filesystem": "lab", **shared}
    return read_cluster_spec(cluster_spec(sharedFilesystem=given))


def test_a_cluster_names_a_filesystem_and_is_given_what_it_is() -> None:
    asked = named(mountPath="/data")
    assert asked.named_filesystems() == {"sharedFilesystem.filesystem": "lab"}
    assert asked.filesystem == "filesystem/lab"
    given = asked.with_filesystems({"lab": LAB})
    assert given.filesystem == f"{LAB.dns_name}/{LAB.mount_name}"
    assert given.shared_path == "/data"
    assert given.as_asked() == asked


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        ({"filesystem": "lab", "dnsName": LAB.dns_name, "mountName": "a"}, "filesystem: says"),
        ({}, "dnsName: is needed"),
        ({"dnsName": LAB.dns_name}, "mountName: is needed"),
    ],
)
def test_a_cluster_gives_either_our_name_or_what_fsx_gave(
    shared: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        read_cluster_spec(cluster_spec(sharedFilesystem=shared))


def test_all_subnets_are_known_in_which_a_cluster_may_be() -> None:
    capacity = [{"subnetIds": ["subnet-0bbbbbbbbbbbbbbb0"]}]
    spec = read_cluster_spec(cluster_spec(capacity=capacity))
    assert list(spec.subnets) == ["subnet-0123456789abcdef0", "subnet-0bbbbbbbbbbbbbbb0"]


def test_storage_of_parallelcluster_names_one_alone() -> None:
    storage = {"name": "lab", "mountPath": "/fsx", "fsx": {"filesystem": "lab"}}
    asked = ParallelClusterSpec.model_validate(parallelcluster_spec(sharedStorage=[storage]))
    assert asked.named_filesystems() == {"sharedStorage.0.fsx.filesystem": "lab"}
    given = asked.with_filesystems({"lab": LAB})
    assert given.filesystem == LAB.file_system_id
    assert given.as_asked() == asked
    more = {**storage, "fsx": {"filesystem": "lab", "keep": True}}
    with pytest.raises(ValidationError, match="filesystem: says which"):
        ParallelClusterSpec.model_validate(parallelcluster_spec(sharedStorage=[more]))
