"""How the stories break SageMaker training jobs, and what they may leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.conformance.adapter import Adapter
from tests.support.job_cloud import IMAGE
from tests.support.system import Json, System

from trainyard_contracts.places import CHECKPOINT_MANIFEST, directory_prefix
from trainyard_local.training_jobs import namespaces
from trainyard_local.training_jobs.settings import JobSettings

SCARCE = "ml.p5.48xlarge"


class TrainingJob(Adapter):
    """Two hosts, which stay in a warm pool for the next attempt."""

    name: ClassVar[str] = "training-job"
    without: ClassVar[Mapping[str, str]] = {}

    def missing(self) -> str | None:
        if not JobSettings.from_env().python.exists():
            return "there is no environment for training jobs: make setup-trainers"
        return namespaces.missing()

    def cluster(self, name: str) -> Json:
        return {
            "backend": self.name,
            "name": name,
            "instanceType": "ml.c5.xlarge",
            "instanceCount": 2,
            "image": IMAGE,
            "warmPoolSeconds": 300,
            "maxRuntimeSeconds": 600,
        }

    def scarce(self, system: System, name: str) -> Json:
        system.fault("no-capacity", instanceType=SCARCE)
        ways = [{"instanceType": SCARCE, "tryForSeconds": 1}, {"instanceType": "ml.c5.2xlarge"}]
        return {**self.cluster(name), "capacity": ways}

    def kill_worker(self, system: System, run: Json) -> None:
        system.fault("kill-host-process", job=_job(run))

    def lose_node(self, system: System, run: Json) -> None:
        system.fault("kill-host", job=_job(run))

    def tear(self, system: System, run: Json, checkpoint: Json) -> None:
        s3, bucket = system.aws("s3"), system.local["bucket"]
        prefix = f"{_directory(run)}{checkpoint['path']}/"
        objects = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
        files = [found for found in objects if not found["Key"].endswith(CHECKPOINT_MANIFEST)]
        victim = max(files, key=lambda found: int(found["Size"]))
        body = s3.get_object(Bucket=bucket, Key=victim["Key"])["Body"].read()
        s3.put_object(Bucket=bucket, Key=victim["Key"], Body=body[: len(body) // 2])

    @contextmanager
    def refused(self, system: System) -> Iterator[str]:
        with system.denied("StepsRole", "sagemaker:CreateTrainingJob"):
            yield "sagemaker:CreateTrainingJob"

    @contextmanager
    def spoiled_export(self, system: System, run: Json) -> Iterator[None]:
        resource = f"arn:aws:s3:::{system.local['bucket']}/{system.export_prefix(run['id'])}*"
        with system.denied("StepsRole", "s3:PutObject", resource):
            yield

    def left(self, system: System, cluster: Json) -> list[str]:
        """Jobs that run, hosts in a warm pool, and processes of hosts."""
        found = system.aws("sagemaker").list_training_jobs(MaxResults=100)
        names = [job["TrainingJobName"] for job in found["TrainingJobSummaries"]]
        jobs = [system.aws("sagemaker").describe_training_job(TrainingJobName=n) for n in names]
        own = [job for job in jobs if _is_of(system, job, cluster)]
        return [
            job["TrainingJobName"]
            for job in own
            if job["TrainingJobStatus"] in ("InProgress", "Stopping")
            or job.get("WarmPoolStatus", {}).get("Status") in ("Available", "InUse")
        ]

    def keeps(self, system: System, run: Json) -> list[str]:
        found = system.aws("s3").list_objects_v2(
            Bucket=system.local["bucket"], Prefix=f"{_directory(run)}checkpoints/"
        )
        keys = [each["Key"] for each in found.get("Contents", [])]
        return [key.split("/")[-2] for key in keys if key.endswith(CHECKPOINT_MANIFEST)]


def _is_of(system: System, job: Json, cluster: Json) -> bool:
    tags = system.aws("sagemaker").list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
    return {"Key": "trainyard:cluster", "Value": cluster["name"]} in tags


def _job(run: Json) -> str:
    """The training job of the run's newest attempt."""
    return str(run["attempts"][-1]["jobId"])


def _directory(run: Json) -> str:
    return directory_prefix(run["clusterName"], run["id"])


ADAPTER = TrainingJob()
