"""What AWS or a node would refuse later is refused at once, with its field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.spec_parts import FILESYSTEM, NETWORK, ON_FSX

from trainyard_contracts.base import read_stored, relative_path
from trainyard_contracts.checkpoint_spec import CheckpointSpec
from trainyard_contracts.cluster_parts import PythonEnvironment, S3Mount
from trainyard_contracts.cluster_specs import ClusterSpec, read_cluster_spec
from trainyard_contracts.job_spec import JobSpec
from trainyard_contracts.specs import RunSpec

GROUPS = [
    {"name": "controller", "role": "controller", "instanceType": "ml.c5.xlarge", "count": 1},
    {"name": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "count": 2},
]
KEY = "ssh-ed25519 AAAA"


def cluster(**fields: Any) -> ClusterSpec:
    given = {"name": "c", "instanceGroups": GROUPS, **ON_FSX, **fields}
    return read_cluster_spec(given)


@pytest.mark.parametrize("provisioning", ["Continuous", "AllAtOnce"])
def test_a_hyperpod_cluster_without_a_shared_filesystem_is_refused(provisioning: str) -> None:
    """A run's directory would lie on the controller's own disk, where no worker sees it."""
    given = {"name": "c", "instanceGroups": GROUPS, "network": NETWORK}
    with pytest.raises(ValidationError, match=r"sharedFilesystem: .*give dnsName and mountName"):
        read_cluster_spec({**given, "provisioning": provisioning})
    read_cluster_spec({**given, "provisioning": provisioning, "sharedFilesystem": FILESYSTEM})


def job(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({"nodes": 1, "module": "train", **fields})


def bucket(path: str) -> dict[str, str]:
    return {"bucket": "data", "mountPath": path}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"s3Mounts": [bucket("/fsx")]}, "mounted twice"),
        ({"s3Mounts": [bucket("/fsx/data")]}, "lie in each other"),
        ({"s3Mounts": [bucket("/data"), bucket("/data")]}, "mounted twice"),
        ({"s3Mounts": [bucket("/data/../etc")]}, "must not contain '.' or '..'"),
        ({"s3Mounts": [bucket("/etc/ssh")]}, "would hide /etc"),
        ({"s3Mounts": [bucket("/opt")]}, "would hide /opt"),
        ({"users": [{"name": "root", "uid": 1001}]}, "an account of the system"),
        ({"users": [{"name": "slurm", "uid": 1001}]}, "an account of the system"),
        ({"users": [{"name": "a", "uid": 1001}, {"name": "a", "uid": 1002}]}, "'a' is given twice"),
        (
            {"users": [{"name": "a", "uid": 1001}, {"name": "b", "uid": 1001}]},
            "uid 1001 is given to 'a' and 'b'",
        ),
        ({"tags": {"AWS:x": "1"}}, "which AWS keeps for itself"),
        ({"tags": {"trainyard:cluster": "mine"}}, "which Trainyard sets itself"),
        ({"network": {**NETWORK, "subnetIds": [""]}}, "should match pattern"),
        ({"network": {**NETWORK, "subnetIds": ["x;id"]}}, "should match pattern"),
        (
            {"network": {**NETWORK, "securityGroupIds": ["subnet-0123456789abcdef0"]}},
            "should match pattern",
        ),
        ({"sharedFilesystem": {**FILESYSTEM, "dnsName": "fs.example"}}, "should match pattern"),
        ({"sharedFilesystem": {**FILESYSTEM, "mountName": "abcdefghi"}}, "should match pattern"),
        ({"idleLimitSeconds": "60"}, "valid integer"),
        ({"idleLimitSeconds": True}, "valid integer"),
    ],
)
def test_a_cluster_that_could_not_be_made_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        cluster(**fields)


def test_a_cluster_with_everything_in_its_place_is_taken() -> None:
    made = cluster(
        s3Mounts=[bucket("/data"), bucket("/models")],
        users=[{"name": "alice", "uid": 1001, "sshKeys": [KEY]}, {"name": "bob", "uid": 1002}],
        tags={"team": "vision"},
    )
    assert [mount.mount_path for mount in made.s3_mounts] == ["/data", "/models"]


@pytest.mark.parametrize("files", [{"a": "", "a/b": ""}, {"a/b": "", "a/b/c/d": ""}])
def test_a_file_that_is_also_a_directory_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="is a file, and"):
        job(files=files)


def test_files_whose_names_only_begin_alike_are_taken() -> None:
    assert set(job(files={"a": "", "ab/c": "", "ab/d": ""}).files) == {"a", "ab/c", "ab/d"}


@pytest.mark.parametrize(
    "requirement",
    [
        "six -e .",
        "torch --pre",
        "-t .",
        "x @ file:///etc",
        "./wheel.whl",
        "a/b",
        "git+https://x",
        "six;rm",
        "six\n-e .",
        "a==1 b==2",
        "",
    ],
)
def test_a_requirement_that_is_more_than_a_package_is_refused(requirement: str) -> None:
    with pytest.raises(ValidationError):
        PythonEnvironment(requirements=[requirement])


@pytest.mark.parametrize(
    "requirement",
    ["six", "numpy>=1.26,<3", "numpy >= 1.26, < 3", "torch[opt-einsum,x]==2.13.0", "a_b.c-d~=1.0",
     "x==1.*", "python=3.11",
     "torch==2.13.0+cpu", "x!=1!2.0", "x===1.0"],
)  # fmt: skip
def test_a_package_with_extras_and_versions_is_taken(requirement: str) -> None:
    assert PythonEnvironment(requirements=[requirement]).requirements == [requirement]


@pytest.mark.parametrize("path", ["a\n", "a/../b", "/a", "a//b", "", "a/./b"])
def test_a_relative_path_is_matched_from_end_to_end(path: str) -> None:
    with pytest.raises(ValueError, match="must be a relative path"):
        relative_path(path)


@pytest.mark.parametrize("path", ["/fsx\n", "/fsx/..", "/../etc", "/fsx/./x", "//fsx", "/"])
def test_an_absolute_path_is_plain_to_its_end(path: str) -> None:
    with pytest.raises(ValidationError):
        S3Mount.model_validate({"bucket": "data", "mountPath": path})
    with pytest.raises(ValidationError):
        PythonEnvironment(path=path)


def test_a_cluster_without_a_shared_filesystem_is_refused_with_what_to_give() -> None:
    given = {"name": "c", "instanceGroups": GROUPS, "network": NETWORK}
    for left_out in (given, {**given, "sharedFilesystem": None}):
        with pytest.raises(
            ValidationError, match=r"sharedFilesystem: .*different nodes.*dnsName and mountName"
        ):
            read_cluster_spec(left_out)


def watched(**fields: Any) -> CheckpointSpec:
    return CheckpointSpec.model_validate({"watch": {"pattern": "snapshot.pt", **fields}})


@pytest.mark.parametrize("pattern", ["snapshot*.pt", ["out/checkpoint-*", "**/last.ckpt"], ".a b"])
def test_names_of_checkpoints_are_one_or_several(pattern: Any) -> None:
    watch = watched(pattern=pattern).watch
    assert watch is not None
    assert watch.patterns == (pattern if isinstance(pattern, list) else [pattern])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pattern": ""}, "such as 'snapshot"),
        ({"pattern": []}, "1 to 16"),
        ({"pattern": ["a"] * 17}, "1 to 16"),
        ({"pattern": 3}, "such as 'snapshot.pt'"),
        ({"pattern": "/fsx/a.pt"}, "relative to the working"),
        ({"pattern": "a/../../b"}, "no '..'"),
        ({"pattern": "a/"}, "trailing '/'"),
        ({"pattern": "a\nb"}, "such as"),
        ({"pattern": "a/" * 9 + "b"}, "10 directories"),
        ({"complete": "close"}, "rename"),
        ({"complete": "marker-file"}, "needs 'marker'"),
        ({"marker": "done"}, "give it with complete 'marker-file'"),
        ({"complete": "marker-file", "marker": ".."}, "must be a file's name"),
        ({"stableSeconds": 0}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_watched_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        watched(**fields)


def progress(value: Any) -> Any:
    given = {"name": "a", "cluster": {"name": "c"}, "job": {"nodes": 1, "module": "train"}}
    return RunSpec.model_validate({**given, "progress": value}).progress


def test_steps_are_read_in_one_place() -> None:
    assert [progress("auto"), progress("none")] == ["auto", "none"]
    assert progress({"regex": r"it (?P<step>\d+)"}).regex == r"it (?P<step>\d+)"
    assert progress({"tensorboard": "runs"}).tensorboard == "runs"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("log", "must be 'auto', 'none', or one of"),
        ({}, "give one of"),
        ({"tensorboard": "runs", "mlflow": "mlruns"}, "give one of"),
        ({"mlflow": "mlruns", "wandb": "wandb"}, "give one of"),
        ({"tensorboard": "../runs"}, "relative path"),
        ({"regex": "("}, "no regular expression"),
        ({"regex": "step"}, "must name the step"),
        ({"regex": r"(?P<step>\d+) (?P<lr>\S+)"}, "has the group 'lr'"),
        ({"regex": "(?P<step>a)" + "b" * 500}, "at most 500"),
    ],
)
def test_where_no_step_can_be_read_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        progress(value)


def export(**fields: Any) -> Any:
    given = {"name": "a", "cluster": {"name": "c"}, "job": {"nodes": 1, "module": "train"}}
    return RunSpec.model_validate({**given, "export": fields}).export


def test_a_sync_has_an_interval_that_means_something() -> None:
    assert export().every_seconds is None
    assert export(everySeconds=300).every_seconds == 300
    for seconds, words in ((1, "greater than or equal to 5"), (100_000, "less than or equal")):
        with pytest.raises(ValidationError, match=words):
            export(everySeconds=seconds)
    with pytest.raises(ValidationError, match="everySeconds: nothing is copied with enabled"):
        export(everySeconds=60, enabled=False)


@pytest.mark.parametrize("field", ["environment", "secrets"])
@pytest.mark.parametrize(
    "name", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "OMPI_COMM_WORLD_RANK"]
)
def test_what_the_launcher_sets_is_not_given(field: str, name: str) -> None:
    words = f"{field}: '{name}' is set by the launcher.*remove it"
    with pytest.raises(ValidationError, match=words):
        job(**{field: {name: "5"}})


def test_where_the_images_libraries_lie_may_be_said_and_nothing_else_to_the_loader() -> None:
    """NCCL takes TCP for EFA without a word where it does not find its plugin."""
    libraries = {"LD_LIBRARY_PATH": "/opt/amazon/ofi-nccl/lib:/opt/amazon/efa/lib"}
    assert job(environment=libraries).environment == libraries
    for name in ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH_64"):
        with pytest.raises(ValidationError, match=f"'{name}' is set by Trainyard or the node"):
            job(environment={name: "/tmp/x"})


def test_a_program_without_a_launcher_may_be_given_its_variables() -> None:
    alone = job(recipe="command", environment={"RANK": 0, "MASTER_ADDR": "localhost"})
    assert alone.environment == {"RANK": "0", "MASTER_ADDR": "localhost"}


def test_a_stored_job_with_such_a_variable_is_still_read() -> None:
    stored = '{"nodes": 1, "module": "train", "environment": {"RANK": "5"}}'
    assert read_stored(JobSpec, stored).environment == {"RANK": "5"}


@pytest.mark.parametrize(
    ("given", "text"), [(100, "100"), (-1, "-1"), (0.5, "0.5"), (1.0, "1.0"), ("x", "x")]
)
def test_numbers_for_the_program_become_their_text(given: object, text: str) -> None:
    assert job(arguments=[given]).arguments == [text]
    assert job(environment={"A": given}).environment == {"A": text}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (True, "put the one that the program reads in quotes: 'true'"),
        (None, "not null; put it in quotes"),
        (1e-5, "in quotes, as the program reads it: '1e-05'"),
        (float("inf"), "without an exponent"),
        ([1], "valid string"),
        ("a\x00", "should match pattern"),
    ],
)
def test_what_may_be_written_in_several_ways_is_put_in_quotes(given: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        job(arguments=[given])
    with pytest.raises(ValidationError, match=words):
        job(environment={"A": given})


@pytest.mark.parametrize(("workers", "said"), [(1, "1 worker node;"), (2, "2 worker nodes;")])
def test_a_run_that_is_larger_than_its_own_cluster_hears_of_both_fields(
    workers: int, said: str
) -> None:
    groups = [GROUPS[0], {**GROUPS[1], "count": workers}]
    spec = {"name": "c", "instanceGroups": groups, **ON_FSX}
    with pytest.raises(ValidationError) as error:
        RunSpec.model_validate(
            {"name": "r", "cluster": {"spec": spec}, "job": {"nodes": 4, "module": "train"}}
        )
    text = str(error.value)
    assert f"job.nodes: 4 nodes asked, but cluster 'c' has {said}" in text
    assert "cluster.spec.instanceGroups.1.count" in text
