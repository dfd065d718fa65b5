"""Training jobs that run Trainyard's own program in their containers, made by raw requests: what
the control plane puts into a job, a bus whose events are kept, and the cluster's key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import job_cloud
from tests.support.job_cloud import BUCKET, JobCloud, eventually
from tests.support.repository import ROOT

from trainyard.backends.training_job import source
from trainyard_contracts.files import CheckpointManifest, JobBundle
from trainyard_contracts.signatures import is_signed

KEY = "0f" * 32
CLUSTER, ARN = "jobs", "arn:aws:sagemaker:us-east-1:123456789012:cluster/jobs"
RUN = "run-01jdxqzzzzzzzzzzzzzzzzzzzz"
TEMPLATE = (
    job_cloud.TEMPLATE.replace(
        """              - Effect: Allow
                Action: ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
""",
        """              - {Effect: Allow, Action: "events:PutEvents", Resource: !GetAtt Bus.Arn}
              - {Effect: Allow, Action: "secretsmanager:GetSecretValue", Resource: "*"}
              - {Effect: Allow, Action: "sagemaker:DescribeTrainingJob", Resource: "*"}
              - Effect: Allow
                Action:
                  - "s3:GetObject"
                  - "s3:PutObject"
                  - "s3:DeleteObject"
                  - "s3:AbortMultipartUpload"
""",
    )
    .replace(
        "  Table:\n",
        """  Bus:
    Type: AWS::Events::EventBus
    Properties: {Name: facts}
  Facts: {Type: AWS::SQS::Queue}
  Told:
    Type: AWS::Events::Rule
    Properties:
      EventBusName: !Ref Bus
      EventPattern: {source: [trainyard.agent]}
      Targets: [{Id: queue, Arn: !GetAtt Facts.Arn}]
  Table:
""",
    )
    .replace("Outputs:\n", "Outputs:\n  Facts: {Value: !Ref Facts}\n")
)
Json = dict[str, Any]


def sources() -> source.SourceFiles:
    """The packages of this clone."""
    return source.SourceFiles(
        ROOT / "job_library" / source.ENTRY,
        ROOT / "job_library/trainyard_container",
        ROOT / "layers/contracts/trainyard_contracts",
        ROOT / "trainers/trainyard_trainers",
        ROOT / "job_library/trainyard_job",
    )


class ContainerCloud:
    """Jobs of one run after the other, each in a directory of its own in the bucket."""

    def __init__(self, cloud: JobCloud) -> None:
        self.cloud = cloud
        self._facts: list[Json] = []
        cloud.client("secretsmanager").create_secret(Name="agent-key", SecretString=KEY)
        made = source.build(sources())
        self.source = f"s3://{BUCKET}/jobs/{made.name}"
        cloud.s3.put_object(Bucket=BUCKET, Key=f"jobs/{made.name}", Body=made.body)

    def start(
        self,
        run: str,
        attempt: int = 1,
        hosts: int = 1,
        *,
        signals: bool = False,
        sha256: str = "",
        **job: Any,
    ) -> str:
        """CreateTrainingJob of an attempt; the job's name. `signals`: our entry is the container's
        first program, and hears SIGTERM.
        """
        usual: Json = {
            "runId": run,
            "attempt": attempt,
            "clusterName": CLUSTER,
            "batchScript": "none",
            "nodes": hosts,
            "processesPerNode": 1,
            "program": ["-m", "trainyard_trainers.ddp"],
        }
        bundle = JobBundle.model_validate({**usual, **job}).model_dump_json(by_alias=True).encode()
        key = f"jobs/bundles/{run}/{attempt}/bundle.json"
        self.cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=bundle)
        name = f"{run}-{attempt}"
        request = self.cloud.request(name, hosts)
        request["Environment"] = {
            "TRAINYARD_RUN_ID": run,
            "TRAINYARD_ATTEMPT": str(attempt),
            "TRAINYARD_BUNDLE": f"s3://{BUCKET}/{key}",
            "TRAINYARD_BUNDLE_SHA256": sha256 or hashlib.sha256(bundle).hexdigest(),
            "TRAINYARD_DATA": f"s3://{BUCKET}/{prefix(run)}",
            "TRAINYARD_EVENT_BUS": "facts",
            "TRAINYARD_CLUSTER": CLUSTER,
            "TRAINYARD_CLUSTER_ARN": ARN,
            "TRAINYARD_KEY_SECRET": "agent-key",
        }
        if signals:
            request["Environment"][source.SOURCE] = self.source
            request["AlgorithmSpecification"]["ContainerEntrypoint"] = source.bootstrap("python")
        else:
            request["HyperParameters"] = {
                "sagemaker_program": json.dumps(source.ENTRY),
                "sagemaker_submit_directory": json.dumps(self.source),
                "sagemaker_region": json.dumps("us-east-1"),
                "sagemaker_job_name": json.dumps(name),
                "sagemaker_container_log_level": "20",
            }
        self.cloud.sagemaker.create_training_job(**request)
        return name

    # -- what a run told ---------------------------------------------------------------------------
    def facts(self, run: str) -> list[Json]:
        """The events of this run, each of which is signed with the key, by their times."""
        queue, sqs = self.cloud.local["outputs"]["Facts"], self.cloud.client("sqs")
        while found := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                self._facts.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        for event in self._facts:
            assert is_signed(event["detail-type"], event["detail"], KEY.encode()), event
        own = [event for event in self._facts if event["detail"].get("runId") == run]
        return sorted(own, key=lambda event: str(event["detail"]["at"]))

    def told(self, run: str, kind: str, attempt: int | None = None) -> list[Json]:
        """The details of such events."""
        return [
            event["detail"]
            for event in self.facts(run)
            if event["detail-type"] == kind and attempt in (None, event["detail"]["attempt"])
        ]

    def ended(self, run: str, attempt: int = 1) -> Json:
        """Wait for the attempt's AttemptEnded."""
        what = f"the end of attempt {attempt} of {run}"
        return dict(
            eventually(what, lambda: (self.told(run, "AttemptEnded", attempt) or [None])[0])
        )

    # -- what is in S3 ----------------------------------------------------------------------------
    def objects(self, run: str) -> dict[str, bytes]:
        return self.cloud.objects(prefix(run))

    def whole(self, run: str) -> list[int]:
        """Steps of the checkpoints in S3, each of which is proven by its manifest."""
        objects = self.objects(run)
        steps = []
        for name in objects:
            if name.startswith("checkpoints/") and name.endswith("/manifest.json"):
                manifest = CheckpointManifest.model_validate_json(objects[name])
                for file in manifest.files:
                    body = objects[f"{name.removesuffix('manifest.json')}{file.path}"]
                    assert (len(body), hashlib.sha256(body).hexdigest()) == (
                        file.bytes,
                        file.sha256,
                    )
                steps.append(manifest.step)
        return sorted(steps)

    def tear(self, run: str, step: int, *, keep: bool) -> None:
        """Remove a file of a checkpoint, or keep its size and change a byte."""
        [key] = [
            f"{prefix(run)}{name}"
            for name in self.objects(run)
            if f"step-{step:012d}" in name and name.endswith("rank-00000.pt")
        ]
        if not keep:
            self.cloud.s3.delete_object(Bucket=BUCKET, Key=key)
            return
        body = bytearray(self.cloud.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        body[len(body) // 2] ^= 0xFF
        self.cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=bytes(body))

    def final(self, run: str) -> dict[str, str]:
        """The final model's files by their hashes, as its manifest says and S3 holds them."""
        objects = self.objects(run)
        manifest = CheckpointManifest.model_validate_json(objects["final/manifest.json"])
        found = {
            f.path: hashlib.sha256(objects[f"final/{f.path}"]).hexdigest() for f in manifest.files
        }
        assert found == {file.path: file.sha256 for file in manifest.files}
        return found


def prefix(run: str) -> str:
    return f"jobs/directories/{CLUSTER}/{run}/"


@contextmanager
def container_cloud(folder: Path, **settings: str) -> Iterator[ContainerCloud]:
    """A local cloud for such jobs; nothing of it is left afterwards."""
    with job_cloud.job_cloud(folder, template=TEMPLATE, **settings) as cloud:
        yield ContainerCloud(cloud)
