"""A local cloud for training jobs: a bucket, a role with a right to part of it, and small jobs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.support import waiting

from trainyard_local import control
from trainyard_local.nodes import processes as node_processes
from trainyard_local.training_jobs import namespaces
from trainyard_local.training_jobs.settings import JobSettings

BUCKET = "sagemaker-jobs"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-cpu-py311-sagemaker"
TEMPLATE = """
AWSTemplateFormatVersion: "2010-09-09"
Resources:
  Bucket:
    Type: AWS::S3::Bucket
    Properties: {BucketName: sagemaker-jobs}
  Events: {Type: AWS::SQS::Queue}
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
      KeySchema: [{AttributeName: id, KeyType: HASH}]
  Changes:
    Type: AWS::Events::Rule
    Properties:
      EventPattern: {source: [aws.sagemaker]}
      Targets: [{Id: queue, Arn: !GetAtt Events.Arn}]
  Role:
    Type: AWS::IAM::Role
    Properties:
      RoleName: JobRole
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement:
          - Effect: Allow
            Principal: {Service: sagemaker.amazonaws.com}
            Action: sts:AssumeRole
      Policies:
        - PolicyName: jobs
          PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - {Effect: Allow, Action: "s3:ListBucket", Resource: !GetAtt Bucket.Arn}
              - Effect: Allow
                Action: ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
                Resource: !Sub "${Bucket.Arn}/jobs/*"
Outputs:
  Role: {Value: !GetAtt Role.Arn}
  Queue: {Value: !Ref Events}
"""
Json = dict[str, Any]
#: A look is a request, for which the cloud has to work as well.
eventually = partial(waiting.eventually, poll=0.3)


def skip_where_there_are_no_hosts() -> None:
    """Skip with the reason on a machine that cannot run training jobs."""
    if lacking := namespaces.missing():
        pytest.skip(lacking)
    if not JobSettings.from_env().python.exists():
        pytest.skip("there is no environment for training jobs: make setup-trainers")


class JobCloud:
    """One that is up, with the owner's keys."""

    def __init__(self, state_dir: Path, template: Path) -> None:
        self.state_dir = state_dir
        self.local = control.up(state_dir, 0, template)
        self.role = str(self.local["outputs"]["Role"])
        self.sagemaker, self.s3 = self.client("sagemaker"), self.client("s3")
        self._events: list[Json] = []

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.local["endpoint"],
            region_name=self.local["region"],
            aws_access_key_id=self.local["accessKeyId"],
            aws_secret_access_key=self.local["secretAccessKey"],
            config=Config(retries={"max_attempts": 0}),
        )

    def may_use_the_role(self) -> bool:
        """Whether IAM has told SageMaker of the new role: a job without data says else."""
        nowhere = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/jobs/nowhere"}
        channel = {"ChannelName": "none", "DataSource": {"S3DataSource": nowhere}}
        request = self.request("no-job", InputDataConfig=[channel])
        with pytest.raises(ClientError) as refused:
            self.sagemaker.create_training_job(**request)
        return "No S3 objects found" in str(refused.value)

    def request(self, name: str, hosts: int = 1, **more: Any) -> Json:
        """CreateTrainingJob of a job whose program is a shell's; `more` replaces what is here."""
        return {
            "TrainingJobName": name,
            "RoleArn": self.role,
            "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/jobs/out"},
            "ResourceConfig": {
                "InstanceType": "ml.c5.xlarge",
                "InstanceCount": hosts,
                "VolumeSizeInGB": 10,
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            **more,
        }

    def shell(self, name: str, script: str, hosts: int = 1, **more: Any) -> str:
        """Create a job that runs this script of a shell on every host."""
        request = self.request(name, hosts, **more)
        # An argument has one line and 256 characters at most, a variable 512.
        request["AlgorithmSpecification"] |= {
            "ContainerEntrypoint": ["bash", "-c"],
            "ContainerArguments": ['eval "$SCRIPT"'],
        }
        request["Environment"] = {**request.get("Environment", {}), "SCRIPT": script}
        self.sagemaker.create_training_job(**request)
        return name

    def program(self, name: str, source: str) -> Json:
        """Hyperparameters as AWS's SDK makes them for a Python program, which is in S3 then."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            entry = tarfile.TarInfo("train.py")
            entry.size = len(source.encode())
            tar.addfile(entry, io.BytesIO(source.encode()))
        key = f"jobs/{name}/source/sourcedir.tar.gz"
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=archive.getvalue())
        return {
            "sagemaker_container_log_level": "20",
            "sagemaker_job_name": json.dumps(name),
            "sagemaker_program": json.dumps("train.py"),
            "sagemaker_region": json.dumps("us-east-1"),
            "sagemaker_submit_directory": json.dumps(f"s3://{BUCKET}/{key}"),
        }

    def describe(self, name: str) -> Json:
        return dict(self.sagemaker.describe_training_job(TrainingJobName=name))

    def until(self, name: str, *statuses: str) -> Json:
        """The job's description once its secondary status is one of these."""

        def there() -> Json | None:
            job = self.describe(name)
            ended = job["TrainingJobStatus"] in ("Completed", "Failed", "Stopped")
            if job["SecondaryStatus"] not in statuses:
                assert not ended, (job.get("FailureReason"), self.log(name))
                return None
            return job

        return dict(eventually(f"{name} is {' or '.join(statuses)}", there))

    def log(self, name: str) -> str:
        """All that the job's hosts printed."""
        return "\n".join("\n".join(lines) for lines in self.streams(name).values())

    def streams(self, name: str) -> dict[str, list[str]]:
        logs, group = self.client("logs"), "/aws/sagemaker/TrainingJobs"
        if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            return {}
        streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")
        return {
            stream["logStreamName"]: [
                event["message"]
                for event in logs.get_log_events(
                    logGroupName=group, logStreamName=stream["logStreamName"]
                )["events"]
            ]
            for stream in streams["logStreams"]
        }

    def says(self, name: str, words: str) -> str:
        """Wait until a host printed this; the whole log."""
        eventually(f"{name} says {words!r}", lambda: words in self.log(name))
        return self.log(name)

    def events(self, name: str) -> list[Json]:
        """Every event so far about the job."""
        queue, sqs = self.local["outputs"]["Queue"], self.client("sqs")
        while found := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                self._events.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return [each for each in self._events if each["detail"]["TrainingJobName"] == name]

    def objects(self, prefix: str) -> dict[str, bytes]:
        """What lies below a prefix of the bucket."""
        listed = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return {
            entry["Key"].removeprefix(prefix): self.s3.get_object(Bucket=BUCKET, Key=entry["Key"])[
                "Body"
            ].read()
            for entry in listed
        }

    def put(self, key: str, body: str) -> str:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body.encode())
        return f"s3://{BUCKET}/{key}"

    def fault(self, kind: str, **more: Any) -> Json:
        return self._admin("fault", {"kind": kind, **more})

    def status(self) -> Json:
        return self._admin("status")

    def _admin(self, call: str, body: Json | None = None) -> Json:
        request = urllib.request.Request(
            f"{self.local['endpoint']}/_trainyard/{call}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"x-trainyard-token": self.local["adminToken"]},
        )
        with urllib.request.urlopen(request) as answer:
            return dict(json.loads(answer.read()))

    def of_jobs(self) -> list[str]:
        """Commands of all that runs for hosts of training jobs."""
        return [
            process.command
            for process in node_processes.matching(node_processes.of_cloud(self.state_dir))
            if "TRAINYARD_JOB_HOST" in process.environment
        ]

    def fleets(self) -> list[Path]:
        """Directories of hosts."""
        return list((self.state_dir / "training-jobs").glob("*"))


@contextmanager
def job_cloud(folder: Path, *, template: str = TEMPLATE, **settings: str) -> Iterator[JobCloud]:
    """One that is up; afterwards nothing of it is left on this machine."""
    skip_where_there_are_no_hosts()
    file = folder / "template.yaml"
    file.write_text(template)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(f"TRAINYARD_LOCAL_JOB_{name}", value)
        cloud = JobCloud((folder / "state").resolve(), file)
    try:
        eventually("the role is known to SageMaker", cloud.may_use_the_role)
        yield cloud
    finally:
        control.down(cloud.state_dir)
    assert node_processes.matching(node_processes.of_cloud(cloud.state_dir)) == []
    assert cloud.fleets() == []
    assert [line for line in mounts() if str(folder) in line or " /opt/ml " in line] == []
    assert {"bridge", "port1", "port2"}.isdisjoint(links())


def mounts() -> list[str]:
    """What is mounted on this machine, outside of every container."""
    return Path("/proc/self/mounts").read_text().splitlines()


def links() -> list[str]:
    """The network interfaces of this machine, outside of every host."""
    return os.listdir("/sys/class/net")


def untar(body: bytes) -> dict[str, str]:
    """The files of an archive."""
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        return {
            member.name: file.read().decode()
            for member in tar.getmembers()
            if (file := tar.extractfile(member))
        }


def statuses(job: Json) -> list[str]:
    """The secondary statuses that it went through."""
    return [transition["Status"] for transition in job["SecondaryStatusTransitions"]]


def own_ports(pid: int) -> str:
    """What listens in the network of a process."""
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", "ss", "-Hltn"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
