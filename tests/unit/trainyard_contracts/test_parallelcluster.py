"""A spec for ParallelCluster is refused for each mistake that can be known, with its field."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import ValidationError
from tests.support.parallelcluster_specs import (
    BLOCK,
    HEAD_SUBNET,
    OTHER_SUBNET,
    RICH,
    SUBNET,
    Json,
    spec,
)

from trainyard.http.problems import invalid_request
from trainyard_contracts.base import read_stored
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.parallelcluster import ParallelClusterSpec


def read(given: Json) -> ParallelClusterSpec:
    return ParallelClusterSpec.model_validate(given)


def refused(given: Json) -> str:
    """As the API tells it."""
    with pytest.raises(ValidationError) as caught:
        read(given)
    return invalid_request(caught.value.errors()).detail


def fsx(**settings: Any) -> Json:
    return spec(fsx=settings)


def block(**queue: Any) -> Json:
    return spec(
        queue={
            "instanceTypes": ["p5.48xlarge"],
            "capacity": "capacityBlock",
            "capacityReservationId": BLOCK,
            "min": 2,
            "max": 2,
            **queue,
        }
    )


def two(**second: Any) -> Json:
    queue = spec()["queues"][0]
    return spec(queues=[queue, {**queue, "name": "second", **second}])


def stored(*storage: Json) -> Json:
    return spec(sharedStorage=list(storage))


EFS: Json = {"name": "home", "mountPath": "/shared", "efs": {}}
FSX: Json = {"name": "scratch", "mountPath": "/fsx", "fsx": {"capacityGib": 1200}}

MISTAKES: list[tuple[Json, str, str]] = [
    (spec(name="1st"), "name", "begins with a digit"),
    (spec(name="a" * 54), "name", "takes 60"),
    (spec(name="a"), "name", "two characters"),
    (spec(region="Frankfurt"), "region", "the name of a region"),
    (spec(image={"os": "alinux2"}), "image.os", "alinux2023"),
    (spec(image={"os": "rocky9"}), "image", "publishes no image of rocky9"),
    (spec(image={"customAmi": "ami-1"}), "image.customAmi", "ami-0123456789abcdef0"),
    (spec(head={"instanceType": "ml.c5.xlarge"}), "headNode.instanceType", "no 'ml.'"),
    (spec(head={"subnetId": "mine"}), "headNode.subnetId", "must be the id of a subnet"),
    (spec(head={"rootVolumeGib": 8}), "headNode.rootVolumeGib", "35"),
    (spec(head={"dcv": True}), "headNode", "dcvFrom: is needed with dcv"),
    (spec(head={"dcvFrom": "10.0.0.0/8"}), "headNode", "dcvFrom: is for dcv only"),
    (spec(queues=[]), "queues", "at least 1"),
    (spec(queue={"name": "Workers"}), "queues.0.name", "lower-case letters"),
    (spec(queue={"name": "default"}), "queues.0.name", "choose another name"),
    (spec(queue={"name": "q" * 26}), "queues.0.name", "1 to 25"),
    (spec(queue={"max": 0}), "queues.0.max", "1"),
    (spec(queue={"min": 5}), "queues.0", "min: 5 is more than max, 4"),
    (spec(queue={"subnetIds": [SUBNET, SUBNET]}), "queues.0", f"subnetIds: '{SUBNET}' is given"),
    (spec(queue={"instanceTypes": ["c5.large"] * 2}), "queues.0", "instanceTypes: 'c5.large' is"),
    (block(min=1), "queues.0", "min: all nodes of a capacity block run"),
    (block(capacityReservationId=None), "queues.0", "capacityReservationId: is needed"),
    (block(placementGroup=True), "queues.0", "placementGroup: a capacity block is"),
    (block(spotPrice=1.0), "queues.0", "spotPrice: is for capacity 'spot' only"),
    (block(allocationStrategy="lowestPrice"), "queues.0", "allocationStrategy: 'lowestPrice'"),
    (block(subnetIds=[SUBNET, OTHER_SUBNET]), "queues.0", "subnetIds: a reservation is in one"),
    (block(capacity="spot"), "queues.0", "capacityReservationId: nodes of capacity 'spot'"),
    (
        block(instanceTypes=["p5.48xlarge", "p5e.48xlarge"]),
        "queues.0",
        "instanceTypes: a reservation is of one type",
    ),
    (
        block(capacityReservationGroup="arn:aws:resource-groups:us-east-1:111122223333:group/x"),
        "queues.0",
        "capacityReservationGroup: cannot be beside",
    ),
    (spec(queue={"capacityReservationId": "cr-1"}), "queues.0.capacityReservationId", "cr-01234"),
    (
        spec(queue={"capacity": "spot", "allocationStrategy": "prioritized"}),
        "queues.0",
        "use lowestPrice or capacityOptimized",
    ),
    (spec(queue={"efa": True}), "queues.0", "efa: c5.xlarge has no EFA"),
    (
        spec(queue={"instanceTypes": ["trn1.2xlarge"], "efa": True}),
        "queues.0",
        "efa: trn1.2xlarge has no EFA",
    ),
    (
        spec(
            queue={
                "instanceTypes": ["p5.48xlarge"],
                "efa": True,
                "subnetIds": [SUBNET, OTHER_SUBNET],
            }
        ),
        "queues.0",
        "efa: does not reach across zones",
    ),
    (
        spec(queue={"placementGroup": True, "subnetIds": [SUBNET, OTHER_SUBNET]}),
        "queues.0",
        "placementGroup: does not reach across zones",
    ),
    (spec(queue={"localScratch": True}), "queues.0", "localScratch: c5.xlarge has no disk"),
    (spec(queue={"neuron": True}), "queues.0", "neuron: c5.xlarge has no accelerator of AWS"),
    (spec(queue={"gpuHealthCheck": True}), "queues.0", "gpuHealthCheck: c5.xlarge has no GPU"),
    (
        spec(queue={"instanceTypes": ["c5.xlarge", "c7g.xlarge"]}),
        "queues.0",
        "instanceTypes: c5.xlarge has x86_64 and c7g.xlarge has arm64",
    ),
    (
        spec(queue={"instanceTypes": ["g5.xlarge", "c5.xlarge"]}),
        "queues.0",
        "g5.xlarge has nvidia 1 and c5.xlarge has no accelerator",
    ),
    (
        spec(queue={"instanceTypes": ["c5.xlarge", "c5.2xlarge"]}),
        "queues.0",
        "c5.xlarge has 4 vCPUs and c5.2xlarge has 8 vCPUs",
    ),
    (two(name="workers"), "queues", "'workers' is there twice"),
    (spec(queues=[spec()["queues"][0]] * 51), "queues", "at most 50"),
    (two(subnetIds=[OTHER_SUBNET]), "queues", "the filesystem 'scratch' is made in one subnet"),
    (
        spec(head={"instanceType": "m7g.large"}),
        "queues",
        "c5.xlarge of 'workers' is x86_64, and the head node's m7g.large is arm64",
    ),
    (
        spec(loginNodes=[{"name": "workers", "instanceType": "c5.large", "subnetId": SUBNET}]),
        "loginNodes",
        "'workers' is there twice",
    ),
    (stored(), "sharedStorage", "at least 1"),
    (stored(FSX, {**EFS, "name": "scratch"}), "sharedStorage", "'scratch' is there twice"),
    (stored(FSX, {**EFS, "mountPath": "/fsx"}), "sharedStorage", "'/fsx' is mounted twice"),
    (stored(FSX, {**EFS, "mountPath": "/fsx/in"}), "sharedStorage", "lie in each other"),
    (stored({**EFS, "mountPath": "/srv"}), "sharedStorage.0", "mountPath: ParallelCluster keeps"),
    (stored({**EFS, "mountPath": "/opt/slurm"}), "sharedStorage.0.mountPath", "would hide"),
    (stored({**EFS, "ebs": {"sizeGib": 9}}), "sharedStorage.0", "exactly one of fsx, efs and ebs"),
    (stored(EFS, {**EFS, "name": "b", "mountPath": "/b"}), "sharedStorage", "makes 1 efs at most"),
    (
        stored(
            {"name": "a", "mountPath": "/a", "fsx": {"fileSystemId": "fs-0123456789abcdef0"}},
            {"name": "b", "mountPath": "/b", "fsx": {"fileSystemId": "fs-0123456789abcdef0"}},
        ),
        "sharedStorage",
        "'fs-0123456789abcdef0' is there twice",
    ),
    (stored({**EFS, "efs": None, "ebs": {}}), "sharedStorage.0.ebs", "give either sizeGib"),
    (
        stored({**EFS, "efs": None, "ebs": {"sizeGib": 100, "volumeType": "st1"}}),
        "sharedStorage.0.ebs",
        "has at least 500",
    ),
    (
        stored({**EFS, "efs": {"fileSystemId": "fs-01234567", "encrypted": True}}),
        "sharedStorage.0.efs",
        "nothing else can be said",
    ),
    (fsx(), "sharedStorage.0.fsx", "capacityGib: is needed"),
    (fsx(capacityGib=1300), "sharedStorage.0.fsx", "capacityGib: 1300 is not offered; give 1200"),
    (
        fsx(fileSystemId="fs-0123456789abcdef0", capacityGib=1200),
        "sharedStorage.0.fsx",
        "fileSystemId: is of a filesystem that exists",
    ),
    (fsx(capacityGib=1200, throughput=125), "sharedStorage.0.fsx", "throughput: SCRATCH_2 has no"),
    (
        fsx(capacityGib=1200, deployment="PERSISTENT_2", throughput=100),
        "sharedStorage.0.fsx",
        "has one of 125, 250, 500, 1000",
    ),
    (fsx(capacityGib=6000, disks="HDD"), "sharedStorage.0.fsx", "disks: HDD is for deployment"),
    (
        fsx(
            capacityGib=1200,
            importPath="s3://corpus/a",
            repositories=[{"source": "s3://corpus/b/", "path": "/b"}],
        ),
        "sharedStorage.0.fsx",
        "repositories: cannot be beside importPath",
    ),
    (
        fsx(
            capacityGib=1200,
            repositories=[
                {"source": "s3://corpus/a/", "path": "/a"},
                {"source": "s3://corpus/b/", "path": "/a"},
            ],
        ),
        "sharedStorage.0.fsx",
        "repositories: '/a' is named twice",
    ),
    (
        fsx(
            capacityGib=1200,
            deployment="SCRATCH_1",
            repositories=[{"source": "s3://corpus/a/", "path": "/a"}],
        ),
        "sharedStorage.0.fsx",
        "repositories: are not for SCRATCH_1",
    ),
    (
        fsx(capacityGib=1200, exportPath="s3://corpus/out"),
        "sharedStorage.0.fsx",
        "exportPath: needs importPath",
    ),
    (
        fsx(capacityGib=1200, importPath="s3://corpus/a", exportPath="s3://other/out"),
        "sharedStorage.0.fsx",
        "must lie in importPath's bucket, s3://corpus/",
    ),
    (
        fsx(
            capacityGib=1200,
            deployment="PERSISTENT_2",
            throughput=125,
            importPath="s3://corpus/a",
        ),
        "sharedStorage.0.fsx",
        "importPath: is not for deployment PERSISTENT_2",
    ),
    (
        fsx(
            capacityGib=1200,
            archive="s3://lab/a/",
            repositories=[{"source": "s3://corpus/b/", "path": "/b"}],
        ),
        "sharedStorage.0.fsx",
        "archive: is the whole filesystem's one repository",
    ),
    (
        fsx(capacityGib=1200, archive="s3://lab/a/", importPath="s3://corpus/b/"),
        "sharedStorage.0.fsx",
        "archive: is the whole filesystem's one repository",
    ),
    (
        fsx(capacityGib=1200, archive="s3://lab/a/", deployment="SCRATCH_1"),
        "sharedStorage.0.fsx",
        "archive: is not for SCRATCH_1",
    ),
    (
        fsx(fileSystemId="fs-0123456789abcdef0", archive="s3://lab/a/"),
        "sharedStorage.0.fsx",
        "fileSystemId: is of a filesystem that exists",
    ),
    (fsx(capacityGib=1200, archive="lab/a"), "sharedStorage.0.fsx.archive", "s3://"),
    (spec(iamPolicies=["AdministratorAccess"]), "iamPolicies.0", "must be the ARN of a policy"),
    (
        spec(iamPolicies=["arn:aws:iam::111122223333:policy/mine"]),
        "iamPolicies.0",
        "whose name begins with 'parallelcluster'",
    ),
    (spec(tags={"ParallelCluster:x": "1"}), "tags", "which ParallelCluster sets itself"),
    (
        spec(s3Mounts=[{"bucket": "corpus", "mountPath": "/fsx"}]),
        "s3Mounts",
        "'/fsx' is mounted twice",
    ),
    (spec(users=[{"name": "slurm", "uid": 2000}]), "users", "an account of the system"),
    (spec(tags={"trainyard:x": "1"}), "tags", "Trainyard sets itself"),
    (
        spec(queue={"scripts": [{"source": "/tmp/x.sh"}]}),
        "queues.0.scripts.0.source",
        "must be s3://BUCKET/KEY",
    ),
]


@pytest.mark.parametrize(("given", "field", "words"), MISTAKES)
def test_a_mistake_is_refused_with_its_field_and_what_would_be_right(
    given: Json, field: str, words: str
) -> None:
    told = refused(given)
    assert told.startswith(field), told
    assert words in told


@pytest.mark.parametrize("given", [RICH, spec(), block()])
def test_what_is_right_is_read_and_stays_as_it_was_written(given: Json) -> None:
    assert read(given).model_dump(mode="json", by_alias=True, exclude_unset=True) == given


def test_what_is_stored_is_not_judged_again() -> None:
    older = block(min=1, newer="field")
    assert read_stored(ParallelClusterSpec, read(RICH).model_dump_json()) == read(RICH)
    with pytest.raises(ValidationError):
        read(older)


def test_a_type_that_is_newer_than_our_list_is_left_to_aws() -> None:
    queue = {"instanceTypes": ["p99.48xlarge"], "efa": True, "localScratch": True, "neuron": True}
    assert read(spec(queue=queue)).queues[0].efa


def test_the_head_node_is_the_controller_and_each_queue_a_partition() -> None:
    made = read(RICH)
    assert [(one.name, one.role, one.count) for one in made.groups()] == [
        ("HeadNode", "controller", 1),
        ("gpus", "worker", 16),
        ("spot", "worker", 8),
        ("trainium", "worker", 4),
        ("door", "login", 2),
    ]
    assert made.partitions == ["gpus", "spot", "trainium"]
    assert made.worker_count("spot") == 8
    assert made.instance_types("spot") == {"g5.xlarge", "g4dn.xlarge"}
    assert made.count_field(made.workers("spot")[0]) == "queues.1.max"


def test_nodes_that_always_run_and_that_no_job_needs_stand_by() -> None:
    made = read(spec(queue={"min": 3}))
    assert [made.standing_by(nodes) for nodes in (1, 2, 3, 4)] == [2, 1, 0, 0]
    assert read(RICH).standing_by(1, "trainium") == 1


def test_the_first_filesystem_is_where_runs_lie() -> None:
    assert (read(RICH).shared_path, read(RICH).filesystem) == ("/fsx", "fs-0123456789abcdef0")
    assert read(spec()).filesystem == "", "it is made with the cluster, and nobody else has it"
    assert read(RICH).mount_paths() == ["/shared", "/tools", "/corpus"]


def test_what_a_run_may_read_is_what_the_spec_names() -> None:
    made = read(RICH)
    assert made.may_copy(S3Prefix.of("s3://images/train/x"))
    assert not made.may_copy(S3Prefix.of("s3://images/test"))
    assert made.mounted(S3Prefix.of("s3://corpus/tokens/v1/a")) == "/corpus/a"
    assert made.read_buckets() == {
        "s3Mounts.0.bucket": "corpus",
        "jobInputs.0": "images",
        "s3Access.0.bucket": "corpus",
    }
    assert made.lacks_network() is None


def test_a_filesystem_of_an_archive_is_the_same_for_each_cluster_that_is_made_of_it() -> None:
    archived = read(fsx(capacityGib=1200, archive="s3://lab/a/"))
    assert (archived.archive, archived.filesystem) == ("s3://lab/a/", "s3://lab/a/")
    assert archived.filesystems == set(), "it is none that exists"
    assert read(fsx(capacityGib=1200)).archive == read(fsx(capacityGib=1200)).filesystem == ""


def test_another_filesystem_cannot_be_given_to_it() -> None:
    with pytest.raises(ValueError, match="backend 'parallelcluster' cannot be given another"):
        read(spec()).on_filesystem("fs-0123456789abcdef1")


EXISTING = {"fileSystemId": "fs-0123456789abcdef0"}


def ways(*entries: Json, **changes: Any) -> list[ParallelClusterSpec]:
    found = read(spec(fsx=EXISTING, capacity=list(entries), **changes)).ways
    return [cast(ParallelClusterSpec, way.spec) for way in found]


def test_an_entry_of_other_capacity_changes_the_queue_and_the_head_node() -> None:
    given = [
        {"instanceTypes": ["c5.2xlarge", "c5a.2xlarge"]},
        {"market": "spot", "spotPrice": 0.5, "subnetIds": [OTHER_SUBNET]},
        {"market": "block", "capacityReservationId": BLOCK},
        {"market": "reservation", "capacityReservationId": BLOCK},
        {"headNode": {"instanceType": "m5.large"}},
    ]
    made = read(spec(fsx=EXISTING, queue={"placementGroup": True}, capacity=given))
    assert [way.words for way in made.ways] == [
        "c5.2xlarge or c5a.2xlarge, on demand",
        f"c5.xlarge, spot, in {OTHER_SUBNET}",
        "c5.xlarge, capacity block",
        "c5.xlarge, reservation",
        "c5.xlarge, on demand, head node m5.large",
    ]
    types, spot, block, reserved, head = ways(*given, queue={"placementGroup": True})
    assert types.queues[0].instance_types == ["c5.2xlarge", "c5a.2xlarge"]
    assert (spot.queues[0].capacity, spot.queues[0].subnet_ids) == ("spot", [OTHER_SUBNET])
    assert (block.queues[0].capacity, block.queues[0].min) == ("capacityBlock", 4)
    assert block.queues[0].placement_group is None
    assert reserved.queues[0].capacity_reservation_id == BLOCK
    assert head.head_node.instance_type == "m5.large"
    assert head.head_node.subnet_id == HEAD_SUBNET
    assert all(one.capacity == [] for one in (types, spot, block, reserved, head))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"queue": "others"}, "capacity.0.queue: no queue is named 'others'; give workers"),
        ({"instanceType": "m7g.xlarge"}, "capacity.0: with this entry, queues: m7g.xlarge of"),
        ({"market": "block"}, "capacityReservationId: market 'block' needs the id"),
        ({"market": "spot", "capacityReservationId": BLOCK}, "market: with a reservation it is"),
        ({"spotPrice": 1.0}, "spotPrice: is for market 'spot' only"),
        (
            {"instanceType": "c5.large", "instanceTypes": ["c5.large"]},
            "instanceTypes: give one of 'instanceType' and 'instanceTypes'",
        ),
        (
            {
                "market": "block",
                "capacityReservationId": BLOCK,
                "instanceTypes": ["c5.large", "c5a.large"],
            },
            "capacity.0: with this entry, queues.0: instanceTypes: a reservation is of one type",
        ),
    ],
)
def test_an_entry_that_its_cluster_could_not_be_is_refused(entry: Json, words: str) -> None:
    assert words in refused(spec(fsx=EXISTING, capacity=[entry]))


def test_with_several_queues_an_entry_says_which_it_changes() -> None:
    queues = [spec()["queues"][0] | {"name": name} for name in ("small", "large")]
    words = refused(spec(fsx=EXISTING, queues=queues, capacity=[{}]))
    assert "capacity.0.queue: the cluster has 2 queues; say which (small, large)" in words
    (made,) = ways({"queue": "large", "instanceType": "c5.9xlarge"}, queues=queues)
    assert [one.instance_types for one in made.queues] == [["c5.xlarge"], ["c5.9xlarge"]]
