"""What training jobs do not do here is refused with its name, and with what is done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moto.core.exceptions import ServiceException
from tests.support.repository import ROOT

from trainyard_local.training_jobs.requests import check_job, check_parameters, retries

RECORDED = ROOT / "tests" / "data" / "training_jobs" / "torch_distributed.json"


def recorded(**more: Any) -> dict[str, Any]:
    """The request that AWS's SDK made; `more` replaces what is in it."""
    return {**json.loads(RECORDED.read_text()), **more}


def part(name: str, **more: Any) -> dict[str, Any]:
    return {name: {**recorded().get(name, {}), **more}}


def channel(**more: Any) -> dict[str, Any]:
    [given] = recorded()["InputDataConfig"]
    return {"InputDataConfig": [{**given, **more}]}


def refusal(request: dict[str, Any]) -> str:
    with pytest.raises(ServiceException) as refused:
        judge(request)
    return str(refused.value.message)


def judge(request: dict[str, Any]) -> None:
    check_parameters("CreateTrainingJob", request)
    check_job(request)


def test_a_request_of_the_sdk_is_done() -> None:
    check_parameters("CreateTrainingJob", recorded())
    check_job(recorded())
    assert retries(recorded()) == 0
    assert retries(recorded(RetryStrategy={"MaximumRetryAttempts": 3})) == 3


LUSTRE = {
    "FileSystemId": "fs-0123456789abcdef0",
    "FileSystemAccessMode": "rw",
    "FileSystemType": "FSxLustre",
    "DirectoryPath": "/x",
}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"DebugHookConfig": {"S3OutputPath": "s3://b"}}, "DebugHookConfig: the local cloud does"),
        (part("AlgorithmSpecification", MetricDefinitions=[{"Name": "a", "Regex": "b"}]),
         "algorithmSpecification.MetricDefinitions: the local cloud does not do it"),
        (part("AlgorithmSpecification", TrainingInputMode="FastFile"), "it does: File"),
        (part("AlgorithmSpecification", TrainingImage=""), "give the URI of an image"),
        (part("ResourceConfig", InstanceGroups=[{"InstanceGroupName": "a"}]),
         "resourceConfig.InstanceGroups"),
        (part("ResourceConfig", InstanceCount=0), "InstanceCount of 1 or more"),
        (part("ResourceConfig", VolumeSizeInGB=0), "resourceConfig.volumeSizeInGB"),
        (part("ResourceConfig", InstanceCount=17), "is 16 Instances"),
        ({"EnableInterContainerTrafficEncryption": True}, "does not encrypt"),
        (part("OutputDataConfig", KmsKeyId="alias/key"), "outputDataConfig.kmsKeyId"),
        ({"ProfilerConfig": {"DisableProfiler": False}}, "the local cloud has no profiler"),
        ({"CheckpointConfig": {"S3Uri": "s3://b", "LocalPath": "/data"}}, "not below /opt/ml/"),
        ({"CheckpointConfig": {"S3Uri": "s3://b", "LocalPath": "/opt/ml/../x"}}, "not below"),
        (part("StoppingCondition", MaxPendingTimeInSeconds=7200), "MaxPendingTimeInSeconds"),
        (part("StoppingCondition", MaxWaitTimeInSeconds=90000), "it is for managed spot"),
        ({"EnableManagedSpotTraining": True}, "Invalid MaxWaitTimeInSeconds"),
        ({"EnableManagedSpotTraining": True, "StoppingCondition": {
            "MaxRuntimeInSeconds": 2, "MaxWaitTimeInSeconds": 1}}, "Invalid MaxWaitTimeInSeconds"),
        ({"EnableManagedSpotTraining": True, **part("ResourceConfig", KeepAlivePeriodInSeconds=1)},
         "a warm pool cannot have spot instances"),
        (channel(InputMode="Pipe"), "inputDataConfig.1.member.inputMode"),
        (channel(CompressionType="Gzip"), "CompressionType: in mode File it is None"),
        (channel(ShuffleConfig={"Seed": 1}), "inputDataConfig.1.member.ShuffleConfig"),
        (channel(DataSource={}), "exactly one of S3DataSource and FileSystemDataSource"),
        (channel(DataSource={"FileSystemDataSource": LUSTRE}), "vpcConfig: it is needed"),
        (channel(DataSource={"FileSystemDataSource": {**LUSTRE, "FileSystemType": "EFS"}}),
         "the local cloud has FSxLustre only"),
        (channel(DataSource={"S3DataSource": {"S3DataType": "ManifestFile", "S3Uri": "s3://b"}}),
         "does not do 'ManifestFile'"),
        ({"InputDataConfig": recorded()["InputDataConfig"] * 2}, "channelName must be unique"),
    ],
)  # fmt: skip
def test_what_is_not_done_is_named_and_told_why(more: dict[str, Any], words: str) -> None:
    assert words in refusal(recorded(**more))


def test_a_parameter_that_says_nothing_is_no_reason_to_refuse() -> None:
    check_parameters("CreateTrainingJob", recorded(DebugRuleConfigurations=[], MlflowConfig={}))
    with pytest.raises(ServiceException, match="ProfilerConfig"):
        check_parameters("UpdateTrainingJob", {"TrainingJobName": "a", "ProfilerConfig": {"a": 1}})
    check_parameters("StopTrainingJob", {"TrainingJobName": "a"})
