"""Requests with every other option, each derived from the code of AWS's SDK v2 that is named."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.botocore_model import request_problems
from tests.support.training_jobs import PROGRAM, intent, spec, stored_spec

from trainyard.backends.training_job.intent import Intent
from trainyard.backends.training_job.request import create_training_job_request
from trainyard.domain.errors import InvalidRequest

GROUPS = [
    {"name": "gpu", "instanceType": "ml.p4d.24xlarge", "instanceCount": 2},
    {"name": "cpu", "instanceType": "ml.c5.18xlarge", "instanceCount": 1},
]
NODES_BY_GROUP: dict[str, Any] = {
    "instanceType": None,
    "instanceCount": None,
    "instanceGroups": GROUPS,
}
NETWORK = {"subnetIds": ["subnet-0a1b2c3d"], "securityGroupIds": ["sg-0a1b2c3d"]}
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/reserved"
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd"


def made(given: Intent) -> dict[str, Any]:
    request = create_training_job_request(given)
    assert request_problems("sagemaker", "CreateTrainingJob", request) == []
    return request


def launch(given: Intent) -> dict[str, str]:
    """The hyperparameters that are not in every request."""
    usual = set(made(intent())["HyperParameters"])
    return {
        name: value for name, value in made(given)["HyperParameters"].items() if name not in usual
    }


def framework(name: str, version: str, python: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": version, "pythonVersion": python, **more}


def test_smddp_on_one_of_two_groups_names_it_and_sends_null_for_the_type() -> None:
    """estimator.py `_distribution_configuration`: INSTANCE_TYPE is the estimator's, which is None;
    job.py `_prepare_resource_config`: groups take the place of type and count."""
    given = intent(spec(**NODES_BY_GROUP, distribution={"kind": "smddp", "instanceGroup": "gpu"}))
    assert launch(given) == {
        "sagemaker_distribution_instance_groups": '["gpu"]',
        "sagemaker_distributed_dataparallel_enabled": "true",
        "sagemaker_distributed_dataparallel_custom_mpi_options": '""',
        "sagemaker_instance_type": "null",
    }
    assert made(given)["ResourceConfig"] == {
        "InstanceGroups": [
            {"InstanceGroupName": "gpu", "InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2},
            {"InstanceGroupName": "cpu", "InstanceType": "ml.c5.18xlarge", "InstanceCount": 1},
        ],
        "VolumeSizeInGB": 30,
    }


def test_a_single_group_is_named_though_nobody_named_it() -> None:
    """fw_utils.py `validate_distribution`: one group of the estimator is the distribution's."""
    given = intent(
        spec(**{**NODES_BY_GROUP, "instanceGroups": GROUPS[:1]}, distribution={"kind": "mpi"})
    )
    assert launch(given) == {
        "sagemaker_distribution_instance_groups": '["gpu"]',
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_custom_mpi_options": '""',
    }


def test_torchrun_with_groups_names_no_group_and_no_type() -> None:
    """pytorch/estimator.py `_pytorch_distribution_configuration`: without SMDDP and SMP it does not
    come to the code that names the group."""
    given = intent(
        spec(**NODES_BY_GROUP, distribution={"kind": "torchrun", "instanceGroup": "gpu"})
    )
    assert launch(given) == {"sagemaker_torch_distributed_enabled": "true"}


def test_groups_have_the_image_of_the_first_type_with_a_gpu() -> None:
    """estimator.py `_get_instance_type`."""
    given = intent(spec(**{**NODES_BY_GROUP, "instanceGroups": GROUPS[::-1]}))
    assert made(given)["AlgorithmSpecification"]["TrainingImage"].endswith(":2.1.0-gpu-py310")


def test_model_parallelism_v2_has_an_image_and_parameters_of_its_own() -> None:
    """image_uris.py `get_training_image_uri` and pytorch-smp.json; estimator.py for the keys, where
    SMDDP is sent as false and without options."""
    given = intent(
        spec(
            framework=framework("pytorch", "2.3.1", "py311"),
            distribution={
                "kind": "torchrun",
                "library": "smp",
                "parameters": {"hybrid_shard_degree": 8, "sm_activation_offloading": True},
            },
        )
    )
    assert launch(given) == {
        "mp_parameters": '{"hybrid_shard_degree": 8, "sm_activation_offloading": true}',
        "sagemaker_distributed_dataparallel_enabled": "false",
        "sagemaker_torch_distributed_enabled": "true",
        "sagemaker_instance_type": '"ml.p4d.24xlarge"',
    }
    assert made(given)["AlgorithmSpecification"]["TrainingImage"] == (
        "658645717510.dkr.ecr.us-east-1.amazonaws.com/"
        "smdistributed-modelparallel:2.3.1-gpu-py311-cu121"
    )


def test_model_parallelism_without_parameters_sends_none() -> None:
    """estimator.py: `if get_mp_parameters(distribution)` is false for an empty dictionary."""
    given = intent(
        spec(
            framework=framework("pytorch", "2.2.0", "py310"),
            distribution={"kind": "torchrun", "library": "smp"},
        )
    )
    assert "mp_parameters" not in made(given)["HyperParameters"]


def test_mpi_sends_the_number_of_processes_and_the_options() -> None:
    """estimator.py `_distribution_configuration`, branch "mpi"."""
    given = intent(
        spec(distribution={"kind": "mpi", "processesPerHost": 8, "customMpiOptions": "-verbose"})
    )
    assert launch(given) == {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "8",
        "sagemaker_mpi_custom_mpi_options": '"-verbose"',
    }


@pytest.mark.parametrize(
    ("distribution", "keys"),
    [
        ({"kind": "mpi"}, {"sagemaker_mpi_enabled": "true"}),
        (
            {"kind": "mpi", "processesPerHost": 2},
            {
                "sagemaker_mpi_enabled": "true",
                "sagemaker_mpi_num_of_processes_per_host": "2",
                "sagemaker_mpi_custom_mpi_options": '""',
            },
        ),
        ({"kind": "parameter-server"}, {"sagemaker_parameter_server_enabled": "true"}),
    ],
)
def test_mxnet_gets_mpi_options_only_beside_the_number_of_processes(
    distribution: dict[str, Any], keys: dict[str, str]
) -> None:
    """mxnet/estimator.py `_configure_distribution`: the options are set one level deeper there."""
    given = intent(spec(framework=framework("mxnet", "1.9.0", "py38"), distribution=distribution))
    assert launch(given) == keys


@pytest.mark.parametrize(
    ("model_dir", "distribution", "sent"),
    [
        (None, "none", '"s3://sm-bucket/out/demo-job/model"'),
        (None, "mpi", '"/opt/ml/model"'),
        ("s3://other/model", "none", '"s3://other/model"'),
        ("none", "none", None),
    ],
)
def test_tensorflow_is_told_its_model_dir(
    model_dir: str | None, distribution: str, sent: str | None
) -> None:
    """tensorflow/estimator.py `hyperparameters` and `_default_s3_path`."""
    more = {} if model_dir is None else {"modelDir": model_dir}
    given = intent(
        spec(
            framework=framework("tensorflow", "2.13.0", "py310", **more),
            distribution={"kind": distribution},
        ),
        output_uri="s3://sm-bucket/out/",
    )
    assert made(given)["HyperParameters"].get("model_dir") == sent


def test_hugging_face_has_both_versions_in_its_tag_and_ddp_by_its_own_name() -> None:
    """huggingface/estimator.py: pytorchddp is not made SMDDP there; image_uris.py: the tag."""
    given = intent(
        spec(
            framework=framework(
                "huggingface", "4.36.0", "py310", base={"name": "pytorch", "version": "2.1.0"}
            ),
            distribution={"kind": "pytorchddp"},
        )
    )
    assert launch(given) == {
        "sagemaker_pytorch_ddp_enabled": "true",
        "sagemaker_instance_type": '"ml.p4d.24xlarge"',
    }
    assert made(given)["AlgorithmSpecification"]["TrainingImage"].endswith(
        "/huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04"
    )


def test_spot_with_checkpoints_waits_and_keeps_files() -> None:
    """estimator.py `_add_spot_checkpoint_args`, job.py `_prepare_stop_condition`."""
    request = made(
        intent(
            spec(
                maxRuntimeSeconds=3600,
                spot={"maxWaitSeconds": 7200},
                checkpoints={"s3Uri": "s3://sm-bucket/ck", "localPath": "/opt/ml/checkpoints"},
            )
        )
    )
    assert request["EnableManagedSpotTraining"] is True
    assert request["StoppingCondition"] == {
        "MaxRuntimeInSeconds": 3600,
        "MaxWaitTimeInSeconds": 7200,
    }
    assert request["CheckpointConfig"] == {
        "S3Uri": "s3://sm-bucket/ck",
        "LocalPath": "/opt/ml/checkpoints",
    }


def test_a_warm_pool_a_plan_a_key_and_retries_are_where_the_api_has_them() -> None:
    """job.py `_prepare_resource_config`, session.py `_get_train_request`."""
    request = made(
        intent(
            spec(
                warmPoolSeconds=600,
                trainingPlanArn=PLAN,
                volumeSizeGib=500,
                volumeKmsKeyId=KEY,
                outputKmsKeyId=KEY,
                outputCompression="NONE",
                retryAttempts=5,
            )
        )
    )
    assert request["ResourceConfig"] == {
        "InstanceType": "ml.p4d.24xlarge",
        "InstanceCount": 2,
        "VolumeSizeInGB": 500,
        "VolumeKmsKeyId": KEY,
        "KeepAlivePeriodInSeconds": 600,
        "TrainingPlanArn": PLAN,
    }
    assert request["RetryStrategy"] == {"MaximumRetryAttempts": 5}
    assert request["OutputDataConfig"] == {
        "S3OutputPath": "s3://sm-bucket/",
        "KmsKeyId": KEY,
        "CompressionType": "NONE",
    }


def test_a_filesystem_is_a_channel_of_a_job_with_a_network() -> None:
    """inputs.py `FileSystemInput`: no input mode; vpc_utils.py `to_dict`."""
    files = {
        "name": "tokens",
        "fileSystem": {
            "fileSystemId": "fs-0123456789abcdef0",
            "type": "FSxLustre",
            "directoryPath": "/abcd1234/tokens",
            "accessMode": "rw",
        },
    }
    request = made(intent(spec(channels=[files], network=NETWORK, interContainerEncryption=True)))
    assert request["InputDataConfig"] == [
        {
            "ChannelName": "tokens",
            "DataSource": {
                "FileSystemDataSource": {
                    "FileSystemId": "fs-0123456789abcdef0",
                    "FileSystemType": "FSxLustre",
                    "DirectoryPath": "/abcd1234/tokens",
                    "FileSystemAccessMode": "rw",
                }
            },
        }
    ]
    assert request["VpcConfig"] == {
        "Subnets": ["subnet-0a1b2c3d"],
        "SecurityGroupIds": ["sg-0a1b2c3d"],
    }
    assert request["EnableInterContainerTrafficEncryption"] is True


def test_each_option_of_a_channel_is_sent() -> None:
    """inputs.py `TrainingInput`."""
    channel = {
        "name": "shards",
        "s3": {
            "uri": "s3://sm-bucket/list.manifest",
            "dataType": "AugmentedManifestFile",
            "distribution": "ShardedByS3Key",
            "attributeNames": ["image", "label"],
            "instanceGroups": ["gpu"],
        },
        "contentType": "application/x-recordio",
        "inputMode": "Pipe",
        "compression": "Gzip",
        "recordWrapper": "RecordIO",
        "shuffleSeed": 0,
    }
    request = made(intent(spec(**NODES_BY_GROUP, channels=[channel])))
    assert request["InputDataConfig"] == [
        {
            "ChannelName": "shards",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "AugmentedManifestFile",
                    "S3Uri": "s3://sm-bucket/list.manifest",
                    "S3DataDistributionType": "ShardedByS3Key",
                    "InstanceGroupNames": ["gpu"],
                    "AttributeNames": ["image", "label"],
                }
            },
            "ContentType": "application/x-recordio",
            "InputMode": "Pipe",
            "CompressionType": "Gzip",
            "RecordWrapperType": "RecordIO",
            "ShuffleConfig": {"Seed": 0},
        }
    ]


def test_an_isolated_job_gets_its_program_by_a_channel() -> None:
    """estimator.py `_prepare_for_training`; job.py `_load_config`: the channel comes last."""
    request = made(intent(spec(networkIsolation=True)))
    assert request["EnableNetworkIsolation"] is True
    assert request["HyperParameters"]["sagemaker_submit_directory"] == (
        '"/opt/ml/input/data/code/sourcedir.tar.gz"'
    )
    assert [one["ChannelName"] for one in request["InputDataConfig"]] == ["train", "code"]
    assert request["InputDataConfig"][1]["DataSource"]["S3DataSource"] == {
        "S3DataType": "S3Prefix",
        "S3Uri": PROGRAM.source_uri,
        "S3DataDistributionType": "FullyReplicated",
    }


def test_metric_definitions_and_the_job_s_input_mode_belong_to_the_algorithm() -> None:
    """session.py `_get_train_request`."""
    request = made(
        intent(
            spec(
                inputMode="FastFile",
                metricDefinitions=[{"name": "loss", "regex": "loss: ([0-9.]+)"}],
            )
        )
    )
    algorithm = request["AlgorithmSpecification"]
    assert algorithm["TrainingInputMode"] == "FastFile"
    assert algorithm["MetricDefinitions"] == [{"Name": "loss", "Regex": "loss: ([0-9.]+)"}]


def test_tags_of_the_spec_and_of_the_run_are_pairs() -> None:
    """session.py: `Tags` is absent without any."""
    assert "Tags" not in made(intent())
    given = intent(spec(tags={"team": "research"}), tags={"trainyard:run": "run-1"})
    assert made(given)["Tags"] == [
        {"Key": "team", "Value": "research"},
        {"Key": "trainyard:run", "Value": "run-1"},
    ]


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"framework": framework("pytorch", "1.2.0", "py3")}, None),
        ({"framework": framework("tensorflow", "1.15.5", "py37")}, True),
        ({"framework": framework("mxnet", "1.6.0", "py3")}, True),
        ({"framework": None, "image": "mine:1"}, None),
        ({"framework": None, "image": "mine:1", "metricsTimeSeries": True}, True),
        ({"metricsTimeSeries": False}, False),
    ],
)
def test_metrics_are_kept_as_time_series_since_the_version_of_each_framework(
    fields: dict[str, Any], sent: bool | None
) -> None:
    """Each estimator's constructor: `enable_sagemaker_metrics`."""
    algorithm = made(intent(spec(**fields)))["AlgorithmSpecification"]
    assert algorithm.get("EnableSageMakerMetricsTimeSeries") is sent


def test_a_job_without_channels_and_variables_sends_neither() -> None:
    """job.py `_format_inputs_to_input_config`: None for no input."""
    request = made(intent(spec(channels=[])))
    assert "InputDataConfig" not in request
    assert "Environment" not in request


def test_a_role_of_the_spec_comes_before_the_deployment_s() -> None:
    role = "arn:aws:iam::123456789012:role/mine"
    assert made(intent(spec(role=role)))["RoleArn"] == role


def test_a_stored_spec_is_still_refused_where_no_image_is_known() -> None:
    wanted = stored_spec(framework=framework("pytorch", "9.9.9", "py399"))
    with pytest.raises(InvalidRequest, match="the nearest are"):
        create_training_job_request(intent(wanted))
