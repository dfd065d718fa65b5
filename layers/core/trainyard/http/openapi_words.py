"""What the OpenAPI document says of fields whose class says nothing: words, and an example of each.

A field that means the same wherever it is found has its words here once; the words of a class's own
field are in its class. No function reads this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

#: By the field's name, or by class and name where one class means something else by it.
DESCRIPTIONS = {
    "active": "members that have begun and not ended",
    "arrays": "one page of arrays, newest first",
    "backend": "which service of AWS makes the nodes",
    "createdBy": "who asked for it; null: of an older version",
    "cron": "when it is due, as a cron expression; null: by rate",
    "entries": "one page of changes, newest first",
    "groups": "its nodes, by kind",
    "labels": "what people wrote on it, by key",
    "maxParallel": "so many members are active at once at most",
    "members": "one page of members, by their numbers",
    "nextTimes": "the next five times at which it is due",
    "overlap": "what happens while the run of an earlier time goes on",
    "parameters": "the values of this member, by name",
    "person": "who signed the request",
    "rate": "how often it is due; null: by cron",
    "schedules": "one page of schedules, newest first",
    "spares": "nodes beyond those of its jobs",
    "succeeded": "members that succeeded",
    "timezone": "in which cron is read, such as Europe/Berlin",
    "what": "the change, as a closed word such as run.cancel",
    "actions": "what was done about it, in order",
    "address": "private IPv4 address; null while there is none",
    "agent": "linked: its agent answers; silent: it does not; unknown: never heard of",
    "arn": "the cluster's name at AWS; null until it has one",
    "askedAt": "when a person asked for it",
    "askedBy": "who asked for it: a person, or a rule of Trainyard's",
    "at": "when it was so",
    "attempt": "number of the attempt, from 1; null: of none",
    "attempts": "all submissions of its job, oldest first",
    "availableAt": "when it could first be used; null: not yet",
    "batchScript": "the script that Slurm gets; null where nothing is submitted",
    "beganAt": "when this way was begun",
    "bytes": "size in bytes",
    "cause": "one of the causes of docs/recovery.md",
    "checkpoints": "one page of checkpoints, newest step first",
    "clusterDeleted": "whether the run's own cluster is gone",
    "clusterName": "the cluster that it runs on",
    "clusters": "one page of clusters",
    "code": "a closed word for the reason; programs branch on it",
    "committedAt": "when it became whole",
    "createdAt": "when it was asked for",
    "cpuPercent": "of all cores, 0 to 100",
    "data": "what the entry was made of; its fields depend on `type`",
    "deleteRequestedAt": "when its deletion was asked for; null: it was not",
    "detail": "what exactly was wrong, in words",
    "diskUsedPercent": "of the root filesystem, 0 to 100",
    "dnsName": "name by which clients mount it; empty until it has one",
    "down": "nodes that were taken from Slurm for it",
    "endedAt": "when it ended; null: it has not",
    "errors": "what is wrong field by field; only of requests that are not valid",
    "events": "one page of the timeline, oldest first",
    "exclude": "nodes on which it must not run",
    "excludedNodes": "nodes on which no further attempt runs",
    "export": "the newest export; null: there was none",
    "failed": "the reason of each node that was refused, by its instance id",
    "failedFiles": "files that could not be exported",
    "files": "how many files",
    "filesystems": "one page of filesystems",
    "finishedAt": "when it ended; null: it has not",
    "firstStepAt": "when its first training step was done; null: not yet",
    "generation": "counts what was begun anew under this name, from 1",
    "gpus": "its GPUs or NeuronDevices, by index",
    "group": "instance group or queue that the node belongs to",
    "hourlyUsd": "price of an hour of all nodes, in USD; null where the price list does not say",
    "id": "identifier, never used twice",
    "incidents": "what went wrong so far, oldest first",
    "index": "number on its node, from 0",
    "instanceId": "the node's identifier at AWS",
    "instanceType": "AWS's name of the kind of machine",
    "jobId": "Slurm's number of the job; null until it has one",
    "jobState": "Slurm's state of the job, in its own word",
    "key": "path below the page's `uri`",
    "kind": "of what kind it is",
    "lastHeartbeatAt": "when its controller was last heard of; null: never",
    "lastUsedAt": "when a run last used it; null: never",
    "latest": "the newest sample of its training; null: none",
    "launchedAt": "when the instance was launched; null: unknown",
    "life": "a resume of an ended run begins a new life, from 1",
    "loss": "the newest loss that the program reported; null: none",
    "manifestKey": "key of the export's list of objects in the data bucket",
    "memoryTotalBytes": "memory that there is, in bytes",
    "memoryUsedBytes": "memory in use, in bytes",
    "message": "in words that a person understands",
    "mountName": "Lustre's name by which clients mount it; empty until it has one",
    "name": "the name that a person gave it",
    "networkReceivedBytesPerSecond": "bytes received in a second",
    "networkSentBytesPerSecond": "bytes sent in a second",
    "nextStep": "what a person does next",
    "nextToken": "for the next page; null: this was the last",
    "node": "Slurm's name of the node; null: of none",
    "nodes": "Slurm's names of its nodes",
    "number": "counts from 1",
    "objects": "how many objects",
    "openedAt": "when this life began; null: it has not",
    "operation": "the operation of AWS's API; null where none would be called",
    "outcome": "how it ended; null: it has not",
    "outputs": "one page of objects, in the order of their keys",
    "ownsCluster": "whether the cluster was made for this run and goes with it",
    "path": "directory below the run's own on the shared filesystem",
    "problem": "why it ended badly, and what to do next; null: it did not",
    "readyAt": "when it was first ready for runs; null: not yet",
    "reason": "why, in words that a person understands; '' where there is nothing to say",
    "request": "the exact request that AWS would get",
    "requestedAt": "when it was asked for",
    "resumedAt": "when training went on; null: it has not",
    "role": "controller, worker or login",
    "run": "samples of the training, oldest first",
    "runId": "the run that it is of",
    "runs": "one page of runs, newest first",
    "sample": "its newest sample, with the fields of NodeSample; null: none",
    "scheduler": "Slurm's state of the node, in lower case",
    "sha256": "SHA-256 of the content, in hexadecimal",
    "source": "where it was read: the node itself, or the copy in S3",
    "spec": "as it was accepted, defaults included",
    "startedAt": "when it began; null: it has not",
    "state": "where it is",
    "status": "where it is in its life",
    "step": "training step; null: none was reported",
    "submittedAt": "when it was handed to Slurm; null: it was not",
    "successful": "instance ids of the nodes that AWS accepted",
    "syncedAt": "when it was copied, of a sync; null: of a verified export",
    "text": "its lines, oldest first",
    "title": "the reason in a few words",
    "tries": "how often it was begun",
    "type": "of what type it is",
    "updatedAt": "when its record last changed",
    "urlsExpireAt": "until when the URLs can be read; null: there are none",
    "utilizationPercent": "how busy it is, 0 to 100",
    "warnings": "what could surprise who asked for it",
    "zone": "the availability zone's id; empty until it is known",
    "CurvePoint.at": "when it was reported, by the clock of the program's node",
    "CurvePoint.attempt": "in which it was reported",
    "CurvePoint.step": "the step that it is about; two attempts may have the same",
    "CurvePoint.value": "the number",
    "MetricsView.nodes": "samples of each node by Slurm's name, oldest first",
    "NodeList.nodes": "one page of nodes, by group and instance",
    "PlanView.files": "sizes in bytes of the files that would be sent, by name",
    "ProblemDetails.status": "HTTP status of the answer",
    "ProblemDetails.type": "a URN that ends with the code",
    "ProblemError.message": "what is wrong with the field, and what would be right",
    "Upload.id": "the id of the upload, which job.workdir names",
}
SUMMARIES = {
    "CheckpointPage": "One page of a run's checkpoints.",
    "ClusterPage": "One page of clusters.",
    "ClusterSpec": "A cluster as a person asks for it; `backend` says of which kind.",
    "EventPage": "One page of a run's timeline.",
    "FilesystemPage": "One page of filesystems.",
    "JsonValue": "Any JSON value.",
    "NodeList": "One page of the nodes of a cluster.",
    "OutputPage": "One page of what a run's export holds.",
    "RunPage": "One page of runs.",
}
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
