"""The exact CreateTrainingJob request of an intent, field by field as the SageMaker SDK v2 has it.

Pure, so that `dryrun` shows what is sent. Fields that the spec leaves out are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.backends.training_job import images, limits
from trainyard.backends.training_job.environment import environment
from trainyard.backends.training_job.hyperparameters import hyperparameters
from trainyard.backends.training_job.intent import Intent
from trainyard_contracts.training_job import TrainingJobClusterSpec
from trainyard_contracts.training_job_data import Channel, FileSystemData, S3Data

#: The first versions whose metrics AWS keeps as time series (AlgorithmSpecification in botocore's
#: model); of Hugging Face, all.
_METRICS_SINCE = {"pytorch": (1, 3), "tensorflow": (1, 15), "mxnet": (1, 6)}


def create_training_job_request(intent: Intent) -> dict[str, Any]:
    """The arguments of sagemaker:CreateTrainingJob. Raises errors.InvalidRequest."""
    limits.check(intent)
    spec = intent.spec
    variables = environment(intent.environment, [one.instance_type for one in spec.host_groups])
    tags = [{"Key": key, "Value": value} for key, value in {**spec.tags, **intent.tags}.items()]
    return {
        "TrainingJobName": intent.job_name,
        "RoleArn": spec.role or intent.role_arn,
        "AlgorithmSpecification": _algorithm(intent),
        "OutputDataConfig": _output(intent),
        "ResourceConfig": _resources(spec),
        "StoppingCondition": _limits(spec),
        "HyperParameters": hyperparameters(intent),
        # Not every region and type has AWS's profiler, so it is off everywhere.
        "ProfilerConfig": {"DisableProfiler": True},
        **_given(
            InputDataConfig=_channels(intent),
            Environment=variables,
            Tags=tags,
        ),
        **_options(spec),
    }


def _given(**fields: Any) -> dict[str, Any]:
    """Without those that are empty."""
    return {name: value for name, value in fields.items() if value not in (None, [], {}, False)}


def _options(spec: TrainingJobClusterSpec) -> dict[str, Any]:
    retries, network = spec.retry_attempts, spec.network
    return _given(
        VpcConfig=network
        and {"Subnets": network.subnet_ids, "SecurityGroupIds": network.security_group_ids},
        EnableNetworkIsolation=spec.network_isolation,
        EnableInterContainerTrafficEncryption=spec.inter_container_encryption,
        EnableManagedSpotTraining=spec.spot is not None,
        CheckpointConfig=spec.checkpoints
        and _given(S3Uri=spec.checkpoints.s3_uri, LocalPath=spec.checkpoints.local_path),
        RetryStrategy=retries and {"MaximumRetryAttempts": retries},
    )


def _algorithm(intent: Intent) -> dict[str, Any]:
    spec = intent.spec
    definitions = [{"Name": one.name, "Regex": one.regex} for one in spec.metric_definitions]
    algorithm = {
        "TrainingImage": image(intent),
        "TrainingInputMode": spec.input_mode,
        **_given(MetricDefinitions=definitions, ContainerEntrypoint=list(intent.entrypoint)),
    }
    series = _metrics(spec)
    return algorithm if series is None else {**algorithm, _SERIES: series}


_SERIES = "EnableSageMakerMetricsTimeSeries"


def _metrics(spec: TrainingJobClusterSpec) -> bool | None:
    if spec.metrics_time_series is not None or spec.framework is None:
        return spec.metrics_time_series
    since = _METRICS_SINCE.get(spec.framework.name, (0, 0))
    major, minor, *_ = map(int, spec.framework.version.split("."))
    return True if (major, minor) >= since else None


def image(intent: Intent) -> str:
    """The image's URI: the spec's own, or AWS's for its framework."""
    spec = intent.spec
    if spec.image is not None:
        return spec.image
    assert spec.framework is not None, "a spec has an image or a framework"
    return images.image_uri(spec.framework, intent.region, _image_type(spec), spec.distribution)


def _image_type(spec: TrainingJobClusterSpec) -> str:
    """All groups have one image: that for the first type with a GPU, else for the first type."""
    types = [group.instance_type for group in spec.host_groups]
    gpus = [one for one in types if one.startswith(("ml.g", "ml.p"))]
    return (gpus or types)[0]


def _output(intent: Intent) -> dict[str, Any]:
    spec = intent.spec
    return {
        "S3OutputPath": intent.output_uri,
        **_given(KmsKeyId=spec.output_kms_key_id, CompressionType=spec.output_compression),
    }


def _resources(spec: TrainingJobClusterSpec) -> dict[str, Any]:
    groups = [
        {
            "InstanceGroupName": group.name,
            "InstanceType": group.instance_type,
            "InstanceCount": group.instance_count,
        }
        for group in spec.instance_groups
    ]
    return _given(
        InstanceType=spec.instance_type,
        InstanceCount=spec.instance_count,
        InstanceGroups=groups,
        VolumeSizeInGB=spec.volume_size_gib,
        VolumeKmsKeyId=spec.volume_kms_key_id,
        KeepAlivePeriodInSeconds=spec.warm_pool_seconds,
        TrainingPlanArn=spec.training_plan_arn,
    )


def _limits(spec: TrainingJobClusterSpec) -> dict[str, Any]:
    return _given(
        MaxRuntimeInSeconds=spec.max_runtime_seconds,
        MaxWaitTimeInSeconds=spec.spot and spec.spot.max_wait_seconds,
    )


def _channels(intent: Intent) -> list[dict[str, Any]]:
    """The spec's, and the program's own where the container may not reach S3."""
    channels = [_channel(channel) for channel in intent.spec.channels]
    if intent.spec.network_isolation:
        code = Channel(name="code", s3=S3Data(uri=intent.program.source_uri))
        channels.append(_channel(code))
    return channels


def _channel(channel: Channel) -> dict[str, Any]:
    found: Mapping[str, Any] = (
        {"S3DataSource": _s3(channel.s3)}
        if channel.s3
        else {"FileSystemDataSource": channel.file_system and _file_system(channel.file_system)}
    )
    seed = channel.shuffle_seed
    return {
        "ChannelName": channel.name,
        "DataSource": found,
        **_given(
            ContentType=channel.content_type,
            InputMode=channel.input_mode,
            CompressionType=channel.compression,
            RecordWrapperType=channel.record_wrapper,
            ShuffleConfig=None if seed is None else {"Seed": seed},
        ),
    }


def _s3(data: S3Data) -> dict[str, Any]:
    return {
        "S3DataType": data.data_type,
        "S3Uri": data.uri,
        "S3DataDistributionType": data.distribution,
        **_given(InstanceGroupNames=data.instance_groups, AttributeNames=data.attribute_names),
    }


def _file_system(data: FileSystemData) -> dict[str, Any]:
    return {
        "FileSystemId": data.file_system_id,
        "FileSystemType": data.type,
        "DirectoryPath": data.directory_path,
        "FileSystemAccessMode": data.access_mode,
    }
