"""What of CreateTrainingJob and UpdateTrainingJob is done here; the rest is refused with why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard_local.sagemaker.errors import ResourceLimitExceeded, ValidationException
from trainyard_local.training_jobs import images

Request = Mapping[str, Any]
MAX_HOSTS = 16
CHECKPOINTS = "/opt/ml/checkpoints"
#: By its place in a request, what is read of it. Anything else would be passed over.
_READ = {
    "CreateTrainingJob": """
        TrainingJobName HyperParameters AlgorithmSpecification RoleArn InputDataConfig
        OutputDataConfig ResourceConfig VpcConfig StoppingCondition Tags EnableNetworkIsolation
        EnableInterContainerTrafficEncryption EnableManagedSpotTraining CheckpointConfig
        Environment RetryStrategy ProfilerConfig
    """,
    "UpdateTrainingJob": "TrainingJobName ResourceConfig",
    "ListTrainingJobs": """
        NextToken MaxResults CreationTimeAfter CreationTimeBefore LastModifiedTimeAfter
        LastModifiedTimeBefore NameContains StatusEquals SortBy SortOrder WarmPoolStatusEquals
    """,
    "algorithmSpecification": """
        TrainingImage TrainingInputMode EnableSageMakerMetricsTimeSeries ContainerEntrypoint
        ContainerArguments
    """,
    "resourceConfig": "InstanceType InstanceCount VolumeSizeInGB KeepAlivePeriodInSeconds",
    "outputDataConfig": "S3OutputPath CompressionType KmsKeyId",
    "stoppingCondition": "MaxRuntimeInSeconds MaxWaitTimeInSeconds",
    "profilerConfig": "DisableProfiler",
    "channel": "ChannelName DataSource ContentType InputMode CompressionType RecordWrapperType",
    "dataSource": "S3DataSource FileSystemDataSource",
    "s3DataSource": "S3DataType S3Uri S3DataDistributionType",
}


def passed_over(place: str, given: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """What the local cloud would not look at; an empty value means nothing, and is fine."""
    done = sorted(_READ[place].split())
    prefix = f"{path}." if path else ""
    for name in sorted(set(given) - set(done)):
        if given[name] not in (None, "", [], {}, False):
            yield (f"{prefix}{name}: the local cloud does not do it; it does: {', '.join(done)}")


def check_parameters(operation: str, params: Request) -> None:
    """Raise ValidationException for parameters of the operation that are not done here."""
    if operation in _READ:
        refuse(passed_over(operation, params))


def refuse(problems: Iterator[str]) -> None:
    """Raise ValidationException with the first problem, if there is one."""
    if (problem := next(problems, None)) is not None:
        raise ValidationException(problem)


def check_job(request: Request) -> None:
    """Raise ValidationException or ResourceLimitExceeded for what botocore's model lets pass."""
    refuse(_problems(request))
    hosts = request["ResourceConfig"]["InstanceCount"]
    if hosts > MAX_HOSTS:
        kind = request["ResourceConfig"]["InstanceType"]
        raise ResourceLimitExceeded(
            f"The account-level service limit '{kind} for training job usage' is {MAX_HOSTS} "
            "Instances, with current utilization of 0 Instances and a request delta of "
            f"{hosts} Instances. "
            "Please use AWS Service Quotas to request an increase for this quota."
        )


def _problems(request: Request) -> Iterator[str]:
    algorithm = request.get("AlgorithmSpecification") or {}
    yield from passed_over("algorithmSpecification", algorithm, "algorithmSpecification")
    if not algorithm.get("TrainingImage"):
        yield "algorithmSpecification.trainingImage: it is needed; give the URI of an image"
    if algorithm.get("TrainingInputMode") != "File":
        yield (
            f"algorithmSpecification.trainingInputMode: the local cloud does not do "
            f"'{algorithm.get('TrainingInputMode')}'; it does: File"
        )
    if reason := images.refusal(
        str(algorithm.get("TrainingImage", "")),
        algorithm.get("ContainerEntrypoint") or [],
        request.get("HyperParameters") or {},
    ):
        yield reason
    yield from _resource_problems(request)
    yield from _output_problems(request)
    yield from _time_problems(request)
    yield from _channel_problems(request)


def _resource_problems(request: Request) -> Iterator[str]:
    resources = request.get("ResourceConfig") or {}
    yield from passed_over("resourceConfig", resources, "resourceConfig")
    if not resources.get("InstanceType") or not resources.get("InstanceCount"):
        yield "resourceConfig: InstanceType, and InstanceCount of 1 or more, are needed"
    if not resources.get("VolumeSizeInGB"):
        yield "resourceConfig.volumeSizeInGB: it is needed; give 1 or more"
    if resources.get("KeepAlivePeriodInSeconds") and request.get("EnableManagedSpotTraining"):
        yield (
            "resourceConfig.keepAlivePeriodInSeconds: a warm pool cannot have spot instances; "
            "leave it or enableManagedSpotTraining out"
        )
    if request.get("EnableInterContainerTrafficEncryption"):
        yield (
            "enableInterContainerTrafficEncryption: the local cloud does not encrypt what hosts "
            "send each other; leave it out"
        )


def _output_problems(request: Request) -> Iterator[str]:
    output = request["OutputDataConfig"]
    yield from passed_over("outputDataConfig", output, "outputDataConfig")
    if output.get("KmsKeyId"):
        yield "outputDataConfig.kmsKeyId: the local cloud has no keys of KMS; leave it out"
    profiler = request.get("ProfilerConfig") or {}
    yield from passed_over("profilerConfig", profiler, "profilerConfig")
    if profiler and not profiler.get("DisableProfiler"):
        yield "profilerConfig: the local cloud has no profiler; give DisableProfiler true"
    path = (request.get("CheckpointConfig") or {}).get("LocalPath") or CHECKPOINTS
    if not path.startswith("/opt/ml/") or ".." in path.split("/"):
        yield (
            f"checkpointConfig.localPath: '{path}' is not below /opt/ml/, and only that is a "
            "host's own here"
        )


def _time_problems(request: Request) -> Iterator[str]:
    limits = request.get("StoppingCondition") or {}
    yield from passed_over("stoppingCondition", limits, "stoppingCondition")
    longest, wait = limits.get("MaxRuntimeInSeconds"), limits.get("MaxWaitTimeInSeconds")
    if request.get("EnableManagedSpotTraining"):
        if wait is None or wait < (longest or 0):
            yield (
                "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to "
                "MaxRuntimeInSeconds"
            )
    elif wait is not None:
        yield (
            "stoppingCondition.maxWaitTimeInSeconds: it is for managed spot training; give "
            "enableManagedSpotTraining true or leave it out"
        )


def _channel_problems(request: Request) -> Iterator[str]:
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig") or []]
    if len(set(names)) != len(names):
        yield "inputDataConfig: channelName must be unique within a training job"
    for number, channel in enumerate(request.get("InputDataConfig") or [], start=1):
        path = f"inputDataConfig.{number}.member"
        yield from passed_over("channel", channel, path)
        yield from passed_over("dataSource", channel["DataSource"], f"{path}.dataSource")
        if channel.get("InputMode", "File") != "File":
            yield f"{path}.inputMode: the local cloud does not do it; it does: File"
        for name in ("CompressionType", "RecordWrapperType"):
            if channel.get(name, "None") != "None":
                yield f"{path}.{name}: in mode File it is None; leave it out"
        yield from _source_problems(request, channel["DataSource"], f"{path}.dataSource")


def _source_problems(request: Request, source: Request, path: str) -> Iterator[str]:
    objects, files = source.get("S3DataSource"), source.get("FileSystemDataSource")
    if bool(objects) == bool(files):
        yield f"{path}: exactly one of S3DataSource and FileSystemDataSource is needed"
    if objects:
        yield from passed_over("s3DataSource", objects, f"{path}.s3DataSource")
        if objects["S3DataType"] != "S3Prefix":
            yield (
                f"{path}.s3DataSource.s3DataType: the local cloud does not do "
                f"'{objects['S3DataType']}'; it does: S3Prefix"
            )
    if files and files["FileSystemType"] != "FSxLustre":
        yield f"{path}.fileSystemDataSource.fileSystemType: the local cloud has FSxLustre only"
    if files and not request.get("VpcConfig"):
        yield "vpcConfig: it is needed for a file system as an input; give Subnets and groups"


def retries(request: Request) -> int:
    """How often a job that failed by an internal error is started again."""
    return int((request.get("RetryStrategy") or {}).get("MaximumRetryAttempts", 0))
