"""Training jobs on the local cloud: what a container finds, what is left of it, and who may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator
from tests.support.job_cloud import BUCKET, IMAGE, JobCloud, eventually, job_cloud, statuses, untar

FINDS = """
cd /opt/ml; m=model/$(hostname)
hostname > $m-name
find input/data checkpoints -type f | sort > $m-files
cp input/config/resourceconfig.json $m-resources
env | grep -E '^(TRAINING_JOB|AWS_REGION|COLOR)' | sort > $m-environment
ls /sys/class/net > $m-links
echo hello from $(hostname)
echo more > output/data/notes
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCloud]:
    with job_cloud(tmp_path_factory.mktemp("jobs")) as up:
        yield up


def channel(name: str, prefix: str, **more: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{prefix}", **more}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**params)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.fixture(scope="module")
def ended(cloud: JobCloud) -> dict[str, Any]:
    """Two hosts, three channels, tags; the description of the job after its end."""
    for number in range(3):
        cloud.put(f"jobs/in/parts/{number}.txt", str(number))
    cloud.put("jobs/in/whole/deep/a.txt", "a")
    shared = cloud.state_dir / "fsx" / "fs-0123456789abcdef0" / "corpus"
    shared.mkdir(parents=True)
    (shared / "page.txt").write_text("from the shared file system")
    lustre = {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemAccessMode": "ro",
        "FileSystemType": "FSxLustre",
        "DirectoryPath": "/corpus",
    }
    cloud.shell(
        "finds",
        FINDS + "touch input/data/pages/new 2> /dev/null || echo read-only\n",
        hosts=2,
        InputDataConfig=[
            channel("parts", "jobs/in/parts/", S3DataDistributionType="ShardedByS3Key"),
            channel("whole", "jobs/in/whole"),
            {"ChannelName": "pages", "DataSource": {"FileSystemDataSource": lustre}},
        ],
        Environment={"COLOR": "green"},
        VpcConfig={"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
        Tags=[{"Key": "trainyard:stage", "Value": "test"}],
    )
    return cloud.until("finds", "Completed")


def test_a_container_finds_what_aws_lays_out_for_it(cloud: JobCloud, ended: dict[str, Any]) -> None:
    model = untar(cloud.objects("jobs/out/finds/output/model.tar.gz")[""])
    assert model["algo-1-name"] == "algo-1\n"
    assert model["algo-1-files"].split() == [
        "input/data/pages/page.txt",
        "input/data/parts/0.txt",
        "input/data/parts/2.txt",
        "input/data/whole/deep/a.txt",
    ]
    assert "input/data/parts/1.txt" in model["algo-2-files"].split()
    assert json.loads(model["algo-2-resources"]) == {
        "current_host": "algo-2",
        "current_instance_type": "ml.c5.xlarge",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1", "algo-2"],
        "instance_groups": [
            {
                "instance_group_name": "homogeneousCluster",
                "instance_type": "ml.c5.xlarge",
                "hosts": ["algo-1", "algo-2"],
            }
        ],
        "network_interface_name": "eth0",
    }
    assert model["algo-1-environment"].split() == [
        "AWS_REGION=us-east-1",
        "COLOR=green",
        f"TRAINING_JOB_ARN={ended['TrainingJobArn']}",
        "TRAINING_JOB_NAME=finds",
    ]
    assert model["algo-1-links"].split() == ["eth0", "lo"]
    assert untar(cloud.objects("jobs/out/finds/output/output.tar.gz")[""]) == {"notes": "more\n"}
    assert cloud.log("finds").count("read-only") == 2


def test_a_job_goes_through_its_statuses_and_each_is_an_event(
    cloud: JobCloud, ended: dict[str, Any]
) -> None:
    went = ["Starting", "Pending", "Downloading", "Training", "Uploading", "Completed"]
    assert statuses(ended) == went
    assert all(each["EndTime"] >= each["StartTime"] for each in ended["SecondaryStatusTransitions"])
    assert ended["TrainingStartTime"] < ended["TrainingEndTime"]
    assert ended["BillableTimeInSeconds"] >= 1

    last = eventually(
        "the event of the end",
        lambda: next(
            (
                event
                for event in cloud.events("finds")
                if event["detail"]["TrainingJobStatus"] == "Completed"
            ),
            None,
        ),
    )

    assert last["detail-type"] == "SageMaker Training Job State Change"
    assert last["resources"] == [ended["TrainingJobArn"]]
    assert last["detail"]["Tags"] == {"trainyard:stage": "test"}
    assert last["detail"]["CreationTime"] == int(ended["CreationTime"].timestamp() * 1000)
    seen = [event["detail"]["SecondaryStatus"] for event in cloud.events("finds")]
    assert list(dict.fromkeys(seen)) == went


def test_each_host_has_a_stream_of_its_own_in_cloudwatch(
    cloud: JobCloud, ended: dict[str, Any]
) -> None:
    streams = cloud.streams("finds")
    assert sorted(name.rpartition("-")[0] for name in streams) == ["finds/algo-1", "finds/algo-2"]
    for name, lines in streams.items():
        assert f"hello from {name.split('/')[1].rpartition('-')[0]}" in lines


def test_every_answer_is_valid_against_botocores_model(
    cloud: JobCloud, ended: dict[str, Any]
) -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    answers = {
        "DescribeTrainingJob": ended,
        "ListTrainingJobs": cloud.sagemaker.list_training_jobs(NameContains="find"),
    }
    for operation, answer in answers.items():
        found = {key: value for key, value in answer.items() if key != "ResponseMetadata"}
        shape = model.operation_model(operation).output_shape
        assert ParamValidator().validate(found, shape).generate_report() == ""
    [listed] = answers["ListTrainingJobs"]["TrainingJobSummaries"]
    assert (listed["TrainingJobName"], listed["TrainingJobStatus"]) == ("finds", "Completed")


def test_tags_of_a_job_can_be_read_and_changed(cloud: JobCloud, ended: dict[str, Any]) -> None:
    arn = ended["TrainingJobArn"]
    cloud.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "owner", "Value": "ada"}])
    cloud.sagemaker.delete_tags(ResourceArn=arn, TagKeys=["trainyard:stage"])
    assert cloud.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "owner", "Value": "ada"}]


def test_a_name_stays_taken_until_the_job_is_deleted(cloud: JobCloud) -> None:
    cloud.shell("again", "true")
    create, request = cloud.sagemaker.create_training_job, cloud.request("again")
    code, words = refusal(create, **request)
    assert (code, "this name already exists" in words) == ("ResourceInUse", True)
    cloud.until("again", "Completed")
    assert refusal(create, **request)[0] == "ResourceInUse"
    assert refusal(cloud.sagemaker.stop_training_job, TrainingJobName="again") == (
        "ValidationException",
        "The request was rejected because the training job is in status Completed.",
    )
    cloud.sagemaker.delete_training_job(TrainingJobName="again")
    assert refusal(cloud.sagemaker.describe_training_job, TrainingJobName="again") == (
        "ValidationException",
        "Requested resource not found.",
    )


def test_the_roles_rights_bound_what_a_job_reads_and_writes(cloud: JobCloud) -> None:
    cloud.put("private/secret.txt", "secret")
    create = cloud.sagemaker.create_training_job
    code, words = refusal(create, **cloud.request("no-role", RoleArn=f"{cloud.role}s"))
    assert (code, words.startswith("Could not assume role")) == ("ValidationException", True)

    cloud.shell("reads", "true", InputDataConfig=[channel("data", "private/")])
    cloud.shell("writes", "echo x > /opt/ml/model/x", OutputDataConfig={
        "S3OutputPath": f"s3://{BUCKET}/private"})  # fmt: skip

    assert "Data download failed:" in cloud.until("reads", "Failed")["FailureReason"]
    failed = cloud.until("writes", "Failed")
    assert failed["FailureReason"].startswith("ClientError: Artifact upload failed:")
    assert cloud.objects("private/") == {"secret.txt": b"secret"}


def test_a_channel_without_objects_is_refused_at_once(cloud: JobCloud) -> None:
    request = cloud.request("nothing", InputDataConfig=[channel("data", "jobs/in/nothing")])
    code, words = refusal(cloud.sagemaker.create_training_job, **request)
    assert code == "ValidationException"
    assert words.startswith(f'No S3 objects found under S3 URL "s3://{BUCKET}/jobs/in/nothing"')


def test_an_image_that_nothing_stands_for_is_refused_in_words(cloud: JobCloud) -> None:
    request = cloud.request("image")
    request["AlgorithmSpecification"]["TrainingImage"] = IMAGE.replace("pytorch", "tensorflow")
    code, words = refusal(cloud.sagemaker.create_training_job, **request)
    assert code == "ValidationException"
    assert "the local cloud runs no images" in words


def test_an_isolated_job_has_neither_keys_nor_a_way_out(cloud: JobCloud) -> None:
    script = "env | grep -c ^AWS_SECRET; ss -Hltn | wc -l; ls /sys/class/net | wc -l; exit 7"
    cloud.shell("isolated", script, EnableNetworkIsolation=True)
    job = cloud.until("isolated", "Failed")
    assert job["FailureReason"] == "AlgorithmError: , exit code: 7"
    [lines] = cloud.streams("isolated").values()
    assert lines == ["0", "0", "2"]


def test_uncompressed_results_are_files_below_the_output(cloud: JobCloud) -> None:
    output = {"S3OutputPath": f"s3://{BUCKET}/jobs/out", "CompressionType": "NONE"}
    script = "mkdir /opt/ml/model/part; echo w > /opt/ml/model/part/weights"
    cloud.shell("plain", script, OutputDataConfig=output)
    job = cloud.until("plain", "Completed")
    uri = f"s3://{BUCKET}/jobs/out/plain/output/model/"
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == uri
    assert cloud.objects("jobs/out/plain/output/") == {"model/part/weights": b"w\n"}
