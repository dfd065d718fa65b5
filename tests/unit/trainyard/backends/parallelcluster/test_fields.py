"""A finding leads to our field: by its path, by the validator's name, by the names in its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.parallelcluster_specs import BLOCK, HEAD_SUBNET, OTHER_SUBNET, RICH, Json, spec

from trainyard.backends.parallelcluster.answers import ValidationMessage
from trainyard.backends.parallelcluster.fields import SCHEMA, field_of, schema_paths
from trainyard.backends.parallelcluster.places import PLACES
from trainyard_contracts.parallelcluster import ParallelClusterSpec

SPEC = ParallelClusterSpec.model_validate(RICH)


def found(validator: str, message: str) -> str:
    return field_of(SPEC, ValidationMessage(level="ERROR", type=validator, message=message))


@pytest.mark.parametrize(
    ("tree", "field"),
    [
        ("[('HeadNode', {'Foo': ['Unknown field.']})]", "headNode"),
        ("[('Image', {'Os': ['Must be one of: x.']})]", "image.os"),
        (
            "[('Scheduling', {'SlurmQueues': {1: {'ComputeResources': {0: "
            "{'SpotPrice': ['Must be greater']}}}}})]",
            "queues.1.spotPrice",
        ),
        (
            "[('SharedStorage', {2: {'EbsSettings': {'Size': ['Not a valid integer.']}}})]",
            "sharedStorage.2.ebs.sizeGib",
        ),
        ("[('Tags', ['reserved'])]", "tags"),
        ("[('Elsewhere', ['x'])]", "backend"),
        ("no list at all", "backend"),
    ],
)
def test_a_finding_of_the_schema_has_its_path(tree: str, field: str) -> None:
    assert found(SCHEMA, tree) == field


@pytest.mark.parametrize(
    ("fsx", "field"),
    [
        ({"archive": "s3://lab/a/"}, "archive"),
        ({"repositories": [{"source": "s3://lab/a/", "path": "/a"}]}, "repositories"),
        ({"importPath": "s3://lab/a/"}, "importPath"),
    ],
)
def test_a_bucket_is_named_by_the_field_that_has_it(fsx: Json, field: str) -> None:
    read = ParallelClusterSpec.model_validate(spec(fsx={"capacityGib": 1200, **fsx}))
    words = "The S3 bucket 'lab' does not appear to exist."
    finding = ValidationMessage(level="ERROR", type="FsxS3Validator", message=words)
    assert field_of(read, finding) == f"sharedStorage.0.fsx.{field}"


def test_a_repository_that_is_an_archive_is_named_so() -> None:
    archived = ParallelClusterSpec.model_validate(
        spec(fsx={"capacityGib": 1200, "archive": "s3://lab/a/"})
    )
    tree = (
        "[('SharedStorage', {0: {'FsxLustreSettings': {'DataRepositoryAssociations': {0: "
        "{'Name': ['x']}}}}})]"
    )
    finding = ValidationMessage(level="ERROR", type=SCHEMA, message=tree)
    assert field_of(archived, finding) == "sharedStorage.0.fsx.archive"


def test_a_path_ends_above_the_words_and_without_the_word_for_a_whole_part() -> None:
    assert schema_paths("[('A', {0: {'_schema': ['x'], 'B': ['y']}})]") == [
        ("A", "0"),
        ("A", "0", "B"),
    ]


@pytest.mark.parametrize(
    ("validator", "message", "field"),
    [
        ("InstanceTypeValidator", "The instance type 'g5.xlarge' is not", "queues.1.instanceTypes"),
        ("InstanceTypeValidator", "The instance type 'c5.large' is", "loginNodes.0.instanceType"),
        ("InstanceTypeValidator", "The instance type 'g4dn.xl' is not", "headNode.instanceType"),
        ("CapacityReservationValidator", f"{BLOCK} must", "queues.0.capacityReservationId"),
        ("EfaMultiAzValidator", "on the 'trainium' queue", "queues.2.efa"),
        ("QueueSubnetsValidator", f"of {OTHER_SUBNET} twice", "queues.1.subnetIds"),
        ("QueueSubnetsValidator", "of nobody", "queues"),
        ("SubnetsValidator", f"{HEAD_SUBNET} is away", "headNode.subnetId"),
        ("CustomAmiTagValidator", "The custom AMI was created", "image.customAmi"),
        ("AmiOsCompatibleValidator", "AMI ami-0123456789abcdef1 is", "queues.1.customAmi"),
        ("ComputeResourceLaunchTemplateValidator", "The subnet in spot", "queues.1.subnetIds"),
        ("HeadNodeLaunchTemplateValidator", "The key pair 'ada' is not", "headNode.keyName"),
        ("HeadNodeLaunchTemplateValidator", "no such subnet", "headNode.subnetId"),
        ("HeadNodeLaunchTemplateValidator", "not enough of it", "headNode.instanceType"),
        ("SharedStorageMountDirValidator", "directory /tools is", "sharedStorage.2.mountPath"),
        ("SharedStorageNameValidator", "Invalid name 'home'", "sharedStorage.1.name"),
        ("ExistingFsxNetworkingValidator", "-", "sharedStorage.0.fsx.fileSystemId"),
        ("EbsVolumeTypeSizeValidator", "The size of gp3", "sharedStorage.2.ebs.sizeGib"),
        ("DuplicateNameValidator", "Shared Storage names x must be unique.", "sharedStorage"),
        ("DuplicateNameValidator", "Queue names x must be unique.", "queues"),
        ("MaxCountValidator", "number of Login nodes pools", "loginNodes"),
        ("NameValidator", "Invalid name 'door'.", "loginNodes.0.name"),
        ("NameValidator", "Invalid name 'gpus'.", "queues.0.name"),
        ("AsyncTimedUrlValidator", "'s3://tools/head.sh' is", "headNode.scripts.0.source"),
        ("UrlValidator", "https://example.com/x.sh fails", "queues.0.scripts.0.source"),
        ("S3BucketValidator", "The S3 bucket corpus specified", "s3Mounts.0.bucket"),
        ("QuiteNewValidator", "in queue 'spot'", "queues.1"),
        ("QuiteNewValidator", "fs-0123456789abcdef0 is", "sharedStorage.0.fsx"),
        ("QuiteNewValidator", "something", "backend"),
        ("", f"The subnet ID '{HEAD_SUBNET}' does not exist", "headNode.subnetId"),
    ],
)
def test_a_validators_finding_is_placed_by_the_names_in_it(
    validator: str, message: str, field: str
) -> None:
    assert found(validator, message) == field


@pytest.mark.parametrize("validator", sorted(PLACES))
def test_every_place_that_the_table_gives_is_a_field_of_the_spec(validator: str) -> None:
    for message in ("-", "in queue 'spot'", "the subnet", "key pair"):
        assert found(validator, message).split(".")[-1] in set(names(RICH)), validator


def names(_: Json) -> Iterator[str]:
    """All names in the spec's schema, and numbers, which end a field of a list."""
    schema = ParallelClusterSpec.model_json_schema(by_alias=True)
    yield from properties(schema)
    yield from map(str, range(10))


def properties(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        yield from tree.get("properties", {})
        for below in tree.values():
            yield from properties(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from properties(below)
