"""A rich specification's CreateCluster request is a golden file and fits SageMaker's model."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.support.botocore_model import request_problems

from trainyard.backends.hyperpod.generated_files import generated_files
from trainyard.backends.hyperpod.naming import HyperPodSettings
from trainyard.backends.hyperpod.request import create_cluster_request
from trainyard.domain.records import Cluster
from trainyard_contracts.cluster_specs import read_cluster_spec

GOLDEN = Path(__file__).with_name("golden_hyperpod")
T0 = datetime(2026, 11, 20, tzinfo=timezone.utc)
SETTINGS = HyperPodSettings(
    stage="prod", region="us-west-2", bucket="sagemaker-trainyard-prod-1",
    event_bus="trainyard-prod", secret_prefix="trainyard/prod",
    node_boundary_arn="arn:aws:iam::111122223333:policy/prod-boundary", heartbeat_seconds=60,
    default_subnet_ids=("subnet-0d",), default_security_group_ids=("sg-0d",),
)  # fmt: skip
RICH: dict[str, Any] = {
    "name": "llm-pretrain",
    "instanceGroups": [
        {"name": "head", "role": "controller", "instanceType": "ml.m5.4xlarge", "count": 1,
         "threadsPerCore": 2, "ebs": {"sizeGib": 500}},
        {"name": "door", "role": "login", "instanceType": "ml.m5.large", "count": 2},
        {
            "name": "gpus", "role": "worker", "instanceType": "ml.p5.48xlarge", "count": 16,
            "spares": 2, "partition": "train", "threadsPerCore": 1,
            "ebs": {"sizeGib": 1000, "kmsKeyId": "arn:aws:kms:us-west-2:111122223333:key/abc"},
            "deepHealthChecks": ["InstanceStress", "InstanceConnectivity"],
            "trainingPlanArn": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/large-jobs",
        },
        {"name": "cpus", "role": "worker", "instanceType": "ml.c5.9xlarge", "count": 4},
    ],
    "network": {"subnetIds": ["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
                "securityGroupIds": ["sg-0123456789abcdef1"]},
    "sharedFilesystem": {"dnsName": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
                         "mountName": "abcd1234"},
    "s3Mounts": [{"bucket": "datasets", "mountPath": "/data", "prefix": "tokens/v1"}],
    "users": [{"name": "ada", "uid": 2001, "sshKeys": ["ssh-ed25519 AAAA ada@example.com"]}],
    "environment": {"kind": "conda", "requirements": ["torch==2.13.0"]},
    "tags": {"team": "research"},
}  # fmt: skip


def cluster(spec: dict[str, Any] = RICH, **changes: Any) -> Cluster:
    made = Cluster(
        name=spec["name"],
        spec=read_cluster_spec(spec),
        created_at=T0,
        updated_at=T0,
        generation=3,
    )
    return made.model_copy(update={"owner_run": "run-01jd3n5v8x0000000000000000", **changes})


def legacy() -> Cluster:
    return cluster(
        {**RICH, "provisioning": "AllAtOnce", "slurmSetup": "ProvisioningParameters"},
        owner_run=None,
    )


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("create_cluster.json", create_cluster_request(cluster(), SETTINGS)),
        ("create_cluster_legacy.json", create_cluster_request(legacy(), SETTINGS)),
        ("cluster.json", json.loads(generated_files(cluster(), SETTINGS)["cluster.json"])),
        (
            "provisioning_parameters.json",
            json.loads(generated_files(legacy(), SETTINGS)["provisioning_parameters.json"]),
        ),
    ],
)
def test_what_is_made_of_a_rich_specification_is_the_golden_file(
    name: str, made: dict[str, Any]
) -> None:
    assert made == json.loads((GOLDEN / name).read_text())


@pytest.mark.parametrize("made", [cluster(), legacy()])
def test_the_request_is_valid_against_sagemakers_model(made: Cluster) -> None:
    assert (
        request_problems("sagemaker", "CreateCluster", create_cluster_request(made, SETTINGS)) == []
    )


def test_spares_are_instances_but_no_expected_workers() -> None:
    groups = {
        group["InstanceGroupName"]: group
        for group in create_cluster_request(cluster(), SETTINGS)["InstanceGroups"]
    }
    assert groups["gpus"]["InstanceCount"] == 18
    assert json.loads(generated_files(cluster(), SETTINGS)["cluster.json"])["expectedWorkers"] == 20


def test_only_workers_have_partitions_and_there_is_no_strategy() -> None:
    request = create_cluster_request(cluster(), SETTINGS)
    assert [group["SlurmConfig"] for group in request["InstanceGroups"]] == [
        {"NodeType": "Controller"},
        {"NodeType": "Login"},
        {"NodeType": "Compute", "PartitionNames": ["train"]},
        {"NodeType": "Compute", "PartitionNames": ["main"]},
    ]
    assert request["Orchestrator"] == {"Slurm": {}}


def test_a_specification_without_network_joins_the_deployments_own() -> None:
    spec = {key: value for key, value in RICH.items() if key != "network"}
    assert create_cluster_request(cluster(spec), SETTINGS)["VpcConfig"] == {
        "SecurityGroupIds": ["sg-0d"],
        "Subnets": ["subnet-0d"],
    }


def test_provisioning_parameters_are_written_only_when_slurm_is_not_set_up_through_the_api() -> (
    None
):
    assert set(generated_files(cluster(), SETTINGS)) == {"cluster.json"}
    request = create_cluster_request(legacy(), SETTINGS)
    assert "Orchestrator" not in request
    assert "NodeProvisioningMode" not in request
    assert all("SlurmConfig" not in group for group in request["InstanceGroups"])


@pytest.mark.parametrize(
    ("provisioning", "setup", "entry", "orchestrator"),
    [
        ("Continuous", "SlurmConfig", "OnInitComplete", {"Slurm": {}}),
        ("AllAtOnce", "SlurmConfig", "OnInitComplete", {"Slurm": {"SlurmConfigStrategy": "Merge"}}),
        ("AllAtOnce", "ProvisioningParameters", "OnCreate", None),
    ],
)
def test_the_scripts_run_after_the_images_own_set_up_or_in_its_place(
    provisioning: str, setup: str, entry: str, orchestrator: dict[str, Any] | None
) -> None:
    request = create_cluster_request(
        cluster({**RICH, "provisioning": provisioning, "slurmSetup": setup}), SETTINGS
    )
    for group in request["InstanceGroups"]:
        assert set(group["LifeCycleConfig"]) == {"SourceS3Uri", entry}
    assert request.get("Orchestrator") == orchestrator
    assert request_problems("sagemaker", "CreateCluster", request) == []


def test_a_users_tag_never_takes_the_place_of_ours() -> None:
    asked = cluster(RICH)  # a spec that says so is refused today; a stored one may be older
    older = asked.model_copy(
        update={"spec": asked.spec.model_copy(update={"tags": {"trainyard:stage": "other"}})}
    )
    made = create_cluster_request(older, SETTINGS)
    assert {"Key": "trainyard:stage", "Value": "prod"} in made["Tags"]
    assert len([tag for tag in made["Tags"] if tag["Key"] == "trainyard:stage"]) == 1


PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/large-jobs"
WAYS: dict[str, Any] = {
    **RICH,
    "instanceGroups": [
        RICH["instanceGroups"][0],
        {"name": "gpus", "role": "worker", "instanceType": "ml.p5.48xlarge", "count": 4},
    ],
    "capacity": [
        {"trainingPlanArn": PLAN},
        {"market": "spot", "instanceTypes": ["ml.p4d.24xlarge"]},
        {"subnetIds": ["subnet-0123456789abcdef9"]},
    ],
}


def test_each_way_of_a_spec_is_a_request_of_its_own_that_the_service_takes() -> None:
    requests = []
    for way in read_cluster_spec(WAYS).ways:
        made = cluster(WAYS).changed(spec=way.spec)
        requests.append(create_cluster_request(made, SETTINGS))
        assert request_problems("sagemaker", "CreateCluster", requests[-1]) == []
    workers = [request["InstanceGroups"][1] for request in requests]
    assert [group["InstanceType"] for group in workers] == [
        "ml.p5.48xlarge",
        "ml.p4d.24xlarge",
        "ml.p5.48xlarge",
    ]
    assert [group.get("TrainingPlanArn") for group in workers] == [PLAN, None, None]
    assert [group.get("CapacityRequirements") for group in workers] == [None, {"Spot": {}}, None]
    assert [request["VpcConfig"]["Subnets"] for request in requests] == [
        WAYS["network"]["subnetIds"],
        WAYS["network"]["subnetIds"],
        ["subnet-0123456789abcdef9"],
    ]
