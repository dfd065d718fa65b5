"""A spec of a training job that AWS would refuse is refused at once, with its field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.training_jobs import TRAIN, recorded, spec, spec_fields, stored_spec

from trainyard.http.problems import invalid_request
from trainyard_contracts.training_job import TrainingJobClusterSpec, TrainingJobStateChange

GROUPS = [
    {"name": "gpu", "instanceType": "ml.p4d.24xlarge", "instanceCount": 2},
    {"name": "cpu", "instanceType": "ml.c5.18xlarge", "instanceCount": 1},
]
BY_GROUP: dict[str, Any] = {"instanceType": None, "instanceCount": None, "instanceGroups": GROUPS}
FILES = {
    "name": "files",
    "fileSystem": {"fileSystemId": "fs-0123456789abcdef0", "directoryPath": "/abcd1234"},
}
NETWORK = {"subnetIds": ["subnet-0a1b2c3d"], "securityGroupIds": ["sg-0a1b2c3d"]}
TRAINIUM = {"instanceType": "ml.trn1.32xlarge"}


def refusal(**fields: Any) -> str:
    """Field and words of the first mistake, as the API answers them."""
    with pytest.raises(ValidationError) as refused:
        spec(**fields)
    first = invalid_request(refused.value.errors()).errors[0]
    return f"{first.field}: {first.message}"


def framework(name: str, version: str, **more: Any) -> dict[str, Any]:
    return {"framework": {"name": name, "version": version, **more}}


def launch(kind: str, **options: Any) -> dict[str, Any]:
    return {"distribution": {"kind": kind, **options}}


def test_what_the_sdk_refuses_of_trainium_is_refused_here() -> None:
    assert recorded("trn1_pytorchddp.error")["error"] == "ValueError"
    said = refusal(**TRAINIUM, **framework("pytorch", "1.11.0"), **launch("pytorchddp"))
    assert said.startswith("distribution.kind: 'pytorchddp' does not run on Trainium")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"instanceType": None, "instanceCount": None}, "instanceType: is needed"),
        ({"instanceCount": None}, "instanceCount: is needed"),
        ({"instanceCount": 0}, "instanceCount: must be greater than or equal to 1"),
        ({"instanceType": "p4d.24xlarge"}, "instanceType: must be a training instance type"),
        ({"instanceGroups": GROUPS}, "instanceGroups: exclude instanceType"),
        ({**BY_GROUP, "instanceGroups": GROUPS * 3}, "instanceGroups: must have at most 5"),
        ({**BY_GROUP, "instanceGroups": [GROUPS[0]] * 2}, "instanceGroups: every group needs"),
        ({"image": "mine:1"}, "image: give either image"),
        ({"framework": None}, "image: give either image"),
        ({"backend": "hyperpod"}, "backend: must be one of 'training-job'"),
        ({"name": "a_b"}, "name: must be letters, digits and inner hyphens"),
        ({"volumeSizeGib": 0}, "volumeSizeGib: must be greater than or equal to 1"),
        ({"role": "SMRole"}, "role: must be the ARN of a role"),
        (
            {"maxRuntimeSeconds": 2419201},
            "maxRuntimeSeconds: must be less than or equal to 2419200",
        ),
        ({"spot": {"maxWaitSeconds": 86399}}, "spot.maxWaitSeconds: 86399 is less than"),
        ({"warmPoolSeconds": 21601}, "warmPoolSeconds: must be less than or equal to 21600"),
        (
            {"warmPoolSeconds": 60, "spot": {"maxWaitSeconds": 86400}},
            "warmPoolSeconds: AWS keeps no spot nodes",
        ),
        ({**BY_GROUP, "warmPoolSeconds": 60}, "warmPoolSeconds: AWS keeps no nodes of several"),
        ({"retryAttempts": 0}, "retryAttempts: must be greater than or equal to 1"),
        ({"retryAttempts": 31}, "retryAttempts: must be less than or equal to 30"),
        ({"trainingPlanArn": "plan"}, "trainingPlanArn: must be the ARN of a training plan"),
        ({"channels": [TRAIN, TRAIN]}, "channels: every channel needs a name of its own"),
        ({"channels": [FILES]}, "network: channel 'files' is a filesystem"),
        (
            {"channels": [{**TRAIN, "name": "code"}], "networkIsolation": True},
            "channels: with networkIsolation the program comes by a channel 'code'",
        ),
        (
            {
                "channels": [{**TRAIN, "name": f"c{number}"} for number in range(20)],
                "networkIsolation": True,
            },
            "channels: at most 19",
        ),
        (
            {"channels": [{"name": "a", "s3": {"uri": "s3://abc/d", "instanceGroups": ["x"]}}]},
            "channels: 'a' is for a group that there is not",
        ),
        ({"channels": [{**TRAIN, "compression": "Gzip"}]}, "channels: 'train' has Gzip"),
        ({"metricDefinitions": [{"name": "a", "regex": "b"}] * 41}, "metricDefinitions: must have"),
        ({"tags": {"aws:x": "1"}}, "tags: 'aws:x' begins with 'aws:'"),
        ({"tags": {"trainyard:x": "1"}}, "tags: 'trainyard:x' begins with 'trainyard:'"),
        ({"tags": {"a": "1#2"}}, "tags.a: must not contain '#'"),
        ({"sharedFilesystem": {}}, "sharedFilesystem: is not a known field"),
    ],
)
def test_a_spec_that_aws_would_refuse_is_refused_with_its_field(
    fields: dict[str, Any], words: str
) -> None:
    assert refusal(**fields).startswith(words)


def test_what_is_stored_already_is_not_judged_again() -> None:
    stored = stored_spec(instanceType="ml.g5.12xlarge", **launch("smddp"))
    assert stored.distribution.data_parallel


def test_a_job_without_groups_is_one_group_of_its_type() -> None:
    (one,) = spec().host_groups
    assert (one.instance_type, one.instance_count) == ("ml.p4d.24xlarge", 2)


def test_a_distribution_runs_on_its_group_only() -> None:
    made = spec(**BY_GROUP, **launch("mpi", instanceGroup="gpu"))
    assert (made.launch_types, made.launch_nodes) == (["ml.p4d.24xlarge"], 2)


def test_a_filesystem_is_taken_with_its_network_and_a_warm_pool() -> None:
    made = spec(channels=[FILES], network=NETWORK, warmPoolSeconds=3600)
    assert made.channels[0].file_system is not None


def test_retries_need_no_spot() -> None:
    assert spec(retryAttempts=30).spot is None


def test_a_spec_reads_back_as_it_was_written() -> None:
    made = spec(**BY_GROUP, **launch("smddp", instanceGroup="gpu"), tags={"team": "a b"})
    written = made.model_dump_json(by_alias=True)
    assert TrainingJobClusterSpec.model_validate_json(written) == made


def test_the_backend_is_always_named() -> None:
    fields = {name: value for name, value in spec_fields().items() if name != "backend"}
    with pytest.raises(ValidationError, match="backend"):
        TrainingJobClusterSpec.model_validate(fields)


def test_an_event_is_read_though_keys_are_null_or_new() -> None:
    event = TrainingJobStateChange.model_validate(
        {
            "TrainingJobName": "demo",
            "TrainingJobStatus": "InProgress",
            "SecondaryStatus": None,
            "FailureReason": None,
            "Surprise": {"Key": 1},
        }
    )
    assert (event.training_job_name, event.secondary_status) == ("demo", None)
