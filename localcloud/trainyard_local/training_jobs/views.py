"""How a training job looks from outside: in answers of SageMaker, and in its events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from trainyard_local.training_jobs.job import TrainingJob, Transition, WarmPool

STATE_CHANGE = "SageMaker Training Job State Change"
_KEPT = (
    "TrainingJobName", "HyperParameters", "AlgorithmSpecification", "RoleArn", "InputDataConfig",
    "OutputDataConfig", "ResourceConfig", "VpcConfig", "CheckpointConfig", "Environment",
    "RetryStrategy", "ProfilerConfig",
)  # fmt: skip
_SWITCHES = (
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "EnableManagedSpotTraining",
)
DAY = 86400


def describe(job: TrainingJob) -> dict[str, Any]:
    """DescribeTrainingJob's answer."""
    with job.lock:
        answer = {key: job.request[key] for key in _KEPT if job.request.get(key)}
        answer |= {key: bool(job.request.get(key)) for key in _SWITCHES}
        limits = job.request.get("StoppingCondition") or {}
        answer |= {
            "TrainingJobArn": job.arn,
            "TrainingJobStatus": job.status,
            "SecondaryStatus": job.secondary,
            "StoppingCondition": {"MaxRuntimeInSeconds": DAY, **limits},
            "CreationTime": job.created_at,
            "LastModifiedTime": job.modified_at,
            "SecondaryStatusTransitions": [_transition(each) for each in job.transitions],
        }
        return answer | _outcome(job)


def _outcome(job: TrainingJob) -> dict[str, Any]:
    """What there is only when the job came so far."""
    found: dict[str, Any] = {}
    if job.failure_reason:
        found["FailureReason"] = job.failure_reason
    if job.has_artifacts:
        found["ModelArtifacts"] = {"S3ModelArtifacts": artifacts_uri(job.request)}
    if job.started_at:
        found["TrainingStartTime"] = job.started_at
    if job.started_at and job.ended_at:
        found["TrainingEndTime"] = job.ended_at
        found["TrainingTimeInSeconds"] = _whole(job.ended_at - job.started_at)
        found["BillableTimeInSeconds"] = max(1, round(job.billable_seconds))
    if job.warm_pool:
        found["WarmPoolStatus"] = warm_pool(job.warm_pool)
    return found


def _whole(duration: timedelta) -> int:
    return max(1, round(duration.total_seconds()))


def _transition(transition: Transition) -> dict[str, Any]:
    view: dict[str, Any] = {
        "Status": transition.status,
        "StartTime": transition.started_at,
        "StatusMessage": transition.message,
    }
    return view | ({"EndTime": transition.ended_at} if transition.ended_at else {})


def warm_pool(pool: WarmPool) -> dict[str, Any]:
    """WarmPoolStatus as SageMaker's model has it."""
    view: dict[str, Any] = {"Status": pool.status}
    if pool.status != "InUse":
        view["ResourceRetainedBillableTimeInSeconds"] = pool.billable_seconds
    return view | ({"ReusedByJob": pool.reused_by} if pool.reused_by else {})


def output_uri(request: Mapping[str, Any]) -> str:
    """Where everything lies that the job leaves."""
    return f"{request['OutputDataConfig']['S3OutputPath'].rstrip('/')}/" + (
        f"{request['TrainingJobName']}/output"
    )


def compressed(request: Mapping[str, Any]) -> bool:
    """Whether model and output are each one archive."""
    return str(request["OutputDataConfig"].get("CompressionType", "GZIP")) == "GZIP"


def artifacts_uri(request: Mapping[str, Any]) -> str:
    """Where the model lies."""
    return output_uri(request) + ("/model.tar.gz" if compressed(request) else "/model/")


def summary(job: TrainingJob) -> dict[str, Any]:
    """The job's entry in ListTrainingJobs."""
    with job.lock:
        view: dict[str, Any] = {
            "TrainingJobName": job.name,
            "TrainingJobArn": job.arn,
            "CreationTime": job.created_at,
            "LastModifiedTime": job.modified_at,
            "TrainingJobStatus": job.status,
            "SecondaryStatus": job.secondary,
        }
        if job.ended_at:
            view["TrainingEndTime"] = job.ended_at
        return view | ({"WarmPoolStatus": warm_pool(job.warm_pool)} if job.warm_pool else {})


def event(job: TrainingJob) -> dict[str, Any]:
    """The detail of a state change: the description with times in milliseconds, and the tags."""
    detail: dict[str, Any] = _in_milliseconds(describe(job))
    return detail | {"Tags": dict(job.tags)}


def _in_milliseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, Mapping):
        return {key: _in_milliseconds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_milliseconds(item) for item in value]
    return value
