"""Examples of fields for the API's document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainyard.http.openapi_words import Schema

_RUN, _TIME = "run-01jd0000000000000000000000", "2026-11-20T20:00:00Z"
#: By the field's name, where its type alone gives none that means something.
EXAMPLES: Mapping[str, Any] = {
    "region": "us-east-1",
    "address": "10.0.0.12",
    "agent": "linked",
    "arn": "arn:aws:sagemaker:us-east-1:111122223333:cluster/abcdefghijkl",
    "cause": "node-lost",
    "clusterName": "nightly-abc",
    "code": "out-of-memory",
    "dnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "group": "worker",
    "id": _RUN,
    "instanceId": "i-0123456789abcdef0",
    "instanceType": "ml.p5.48xlarge",
    "jobId": "7",
    "key": "final/model.safetensors",
    "mountName": "abcdefgh",
    "name": "nightly",
    "node": "ip-10-0-0-12",
    "role": "worker",
    "runId": _RUN,
    "scheduler": "idle",
    "backend": "hyperpod",
    "discardReason": "The data is in another bucket, too",
    "image": "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1",
    "kmsKeyId": "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "leftBehind": "2 files changed while they were exported",
    "mlflow": "mlruns",
    "pattern": "checkpoint-{step}",
    "regex": "step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)",
    "report": "s3://my-bucket/reports/task-0123456789abcdef0/",
    "script": "train.py",
    "source": "node",
    "taskId": "task-0123456789abcdef0",
    "teardownRefused": "The export is not verified",
    "tensorboard": "runs",
    "trainingPlanArn": "arn:aws:sagemaker:us-east-1:111122223333:training-plan/nightly",
    "vpc": "vpc-0123456789abcdef0",
    "waitsFor": "AWS creates the filesystem",
    "wandb": "wandb",
    "batchScript": "#!/bin/bash\n#SBATCH --nodes=2\n",
    "beganWith": "step 40",
    "commit": "1a410efbd13591db07496601ebc7a059dd55cfe9",
    "detail": "The kernel's out-of-memory killer ended process 7 (python)",
    "field": "cluster.spec.instanceGroups.0.name",
    "filesystem": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com/abcdefgh",
    "fsxId": "fs-0123456789abcdef0",
    "imageDigest": f"sha256:{'0' * 64}",
    "jobState": "RUNNING",
    "manifestKey": f"runs/{_RUN}/export-1/manifest.json",
    "message": "Training goes on from step 40",
    "nextStep": f"trainyard run logs {_RUN}",
    "nextToken": "eyJwIjoxfQ",
    "objectsPrefix": f"runs/{_RUN}",
    "operation": "CreateCluster",
    "ownerRun": _RUN,
    "path": "checkpoints/step-000000000040-attempt-000001",
    "pendingReason": "Resources",
    "prefix": "corpus/v1/",
    "reason": "The node ip-10-0-0-12 was lost; resuming on the spare",
    "ref": "main",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "status": "Running",
    "text": "step 40 loss 0.25\n",
    "title": "The job ran out of memory",
    "tree": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "type": "AttemptStepped",
    "uri": f"s3://my-bucket/runs/{_RUN}/",
    "url": "https://github.com/example/program.git",
    "way": "ml.p5.48xlarge, spot",
    "zone": "use1-az4",
}
_BY_ENDING = {
    "Seconds": 600,
    "Bytes": 1_073_741_824,
    "bytes": 1_073_741_824,
    "Percent": 42.5,
    "Usd": 98.32,
}
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/nightly"
#: For fields with a pattern: the first that matches is the example.
_POOL = (
    _RUN,
    _SHA256,
    "ml.p5.48xlarge",
    "p5.48xlarge",
    "subnet-0123456789abcdef0",
    "sg-0123456789abcdef0",
    "ami-0123456789abcdef0",
    "vol-0123456789abcdef0",
    "fs-0123456789abcdef0",
    "cr-0123456789abcdef0",
    "03:00Z",
    "10.0.0.0/16",
    "s3://my-bucket/corpus",
    _PLAN,
    "arn:aws:iam::111122223333:role/trainyard",
    "arn:aws:resource-groups:us-east-1:111122223333:group/gpus",
    "/fsx",
    "py312",
    "3.12",
    "2.4.1",
    "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "abcdefgh",
    "nightly",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample",
    "COMPLETE-{step}",
)
#: For fields that take any text, and have no name of which everybody knows what it holds.
_TEXT = "see the description"


def example(name: str, schema: Schema) -> Any:
    """A value that the field may have; what does not fit the schema is not taken."""
    kinds = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for kind in kinds:
        if "enum" in kind and kind.get("type") != "null":
            return kind["enum"][0]
    if schema.get("default") not in (None, "", [], {}):
        return schema["default"]
    ending = next((value for end, value in _BY_ENDING.items() if name.endswith(end)), None)
    named = EXAMPLES.get(name)
    for value in (named, ending, *_POOL):
        if value is not None and any(_fits(value, kind, named) for kind in kinds):
            return value
    return next((made for kind in kinds if (made := _of_type(kind)) is not None), None)


def _fits(value: Any, schema: Schema, named: Any) -> bool:
    """Of plain fields; the contract's test judges by the whole schema."""
    wanted: dict[str, Any] = {"string": str, "integer": int, "number": (int, float)}
    kind = wanted.get(schema.get("type", ""))
    if kind is None or not isinstance(value, kind):
        return False
    if isinstance(value, str):
        if "pattern" not in schema:
            return value == named and "format" not in schema
        return len(value) <= schema.get("maxLength", 1000) and bool(
            re.search(schema["pattern"], value)
        )
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _of_type(schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "string":
        return _TIME if schema.get("format") == "date-time" else _TEXT
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        return int(least) + 1 if "exclusiveMinimum" in schema or least <= 0 else int(least)
    return False if kind == "boolean" else None
