"""SageMaker, CloudWatch and S3 as far as training jobs need them, in memory; requests are judged by
botocore's own models.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from botocore.exceptions import ClientError
from tests.support.botocore_model import request_problems

from trainyard.outside.roles import FoundRole, NodeRole

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
Json = dict[str, Any]


def check_request(service: str, operation: str, request: Json) -> None:
    """Nothing that AWS's own model does not allow."""
    assert request_problems(service, operation, request) == []


def refusal(code: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


@dataclass
class FakeSageMaker:
    """Jobs by their names; each is what DescribeTrainingJob answers."""

    jobs: dict[str, Json] = field(default_factory=dict)
    tags: dict[str, list[Json]] = field(default_factory=dict)
    refuse: ClientError | None = None
    released: list[str] = field(default_factory=list)

    def create_training_job(self, **request: Any) -> Json:
        check_request("sagemaker", "CreateTrainingJob", request)
        if self.refuse is not None:
            raise self.refuse
        name = request["TrainingJobName"]
        if name in self.jobs:
            raise refusal("ResourceInUse", "Training job names must be unique")
        arn = f"arn:aws:sagemaker:us-east-1:111122223333:training-job/{name}"
        self.jobs[name] = {
            **request,
            "TrainingJobArn": arn,
            "TrainingJobStatus": "InProgress",
            "SecondaryStatus": "Starting",
            "CreationTime": NOW,
        }
        self.tags[arn] = request.get("Tags", [])
        return {"TrainingJobArn": arn}

    def end(self, name: str, status: str, secondary: str = "", reason: str = "") -> None:
        """What AWS does with the job in the end."""
        self.jobs[name] |= {
            "TrainingJobStatus": status,
            "SecondaryStatus": secondary or status,
            "FailureReason": reason,
            "TrainingEndTime": NOW,
        }

    def describe_training_job(self, **request: Any) -> Json:
        check_request("sagemaker", "DescribeTrainingJob", request)
        if request["TrainingJobName"] not in self.jobs:
            raise refusal("ValidationException", "Requested resource not found.")
        return self.jobs[request["TrainingJobName"]]

    def list_training_jobs(self, **request: Any) -> Json:
        check_request("sagemaker", "ListTrainingJobs", request)
        pool = request.get("WarmPoolStatusEquals")
        found = [
            job
            for name, job in self.jobs.items()
            if request.get("NameContains", "") in name
            and request.get("StatusEquals") in (None, job["TrainingJobStatus"])
            and pool in (None, job.get("WarmPoolStatus", {}).get("Status"))
        ]
        # AWS makes the page before it takes a status out, so a page may be empty.
        if "NextToken" not in request:
            return {"TrainingJobSummaries": found[:1], "NextToken": "more"}
        return {"TrainingJobSummaries": found[1:]}

    def list_tags(self, **request: Any) -> Json:
        check_request("sagemaker", "ListTags", request)
        return {"Tags": self.tags[request["ResourceArn"]]}

    def stop_training_job(self, **request: Any) -> Json:
        check_request("sagemaker", "StopTrainingJob", request)
        job = self.jobs[request["TrainingJobName"]]
        if job["TrainingJobStatus"] != "InProgress":
            words = f"the training job is in status {job['TrainingJobStatus']}."
            raise refusal("ValidationException", f"The request was rejected because {words}")
        job |= {"TrainingJobStatus": "Stopping", "SecondaryStatus": "Stopping"}
        return {}

    def update_training_job(self, **request: Any) -> Json:
        check_request("sagemaker", "UpdateTrainingJob", request)
        name = request["TrainingJobName"]
        self.released.append(name)
        self.jobs[name]["WarmPoolStatus"] = {"Status": "Terminated"}
        return {}


@dataclass
class FakeS3:
    """Objects of one bucket; a copy has the SHA-256 of what it copied."""

    objects: dict[str, bytes] = field(default_factory=dict)
    copied: list[str] = field(default_factory=list)
    #: Of objects that went up in parts: what was said of each.
    beside: dict[str, dict[str, str]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)

    def list_objects_v2(self, **request: Any) -> Json:
        check_request("s3", "ListObjectsV2", request)
        keys = sorted(key for key in self.objects if key.startswith(request["Prefix"]))
        begin = int(request.get("ContinuationToken", 0))
        page = keys[begin : begin + 2]
        more = begin + 2 < len(keys)
        answer: Json = {
            "Contents": [{"Key": key, "Size": len(self.objects[key])} for key in page],
            "IsTruncated": more,
        }
        return answer | ({"NextContinuationToken": str(begin + 2)} if more else {})

    def get_object(self, **request: Any) -> Json:
        check_request("s3", "GetObject", request)
        if request["Key"] not in self.objects:
            raise refusal("NoSuchKey", "no such key")
        return {"Body": _Body(self.objects[request["Key"]])}

    def put_object(self, **request: Any) -> Json:
        check_request("s3", "PutObject", request)
        self.objects[request["Key"]] = request["Body"]
        return {}

    def copy_object(self, **request: Any) -> Json:
        source: Mapping[str, str] = request["CopySource"]
        if source["Key"] not in self.objects:
            raise refusal("NoSuchKey", "no such key")
        body = self.objects[source["Key"]]
        self.objects[request["Key"]] = body
        self.copied.append(request["Key"])
        return {"CopyObjectResult": {"ChecksumSHA256": _sha256(body)}}

    # -- in parts ---------------------------------------------------------------------------------
    def put_in_parts(self, key: str, body: bytes, part_bytes: int) -> None:
        """As the container sends a large file."""
        self.objects[key] = body
        sha256 = hashlib.sha256(body).hexdigest()
        self.beside[key] = {"sha256": sha256, "part-bytes": str(part_bytes)}

    def head_object(self, **request: Any) -> Json:
        check_request("s3", "HeadObject", request)
        if (key := request["Key"]) not in self.objects:
            raise refusal("404", "Not Found")
        body, beside = self.objects[key], self.beside.get(key, {})
        step = int(beside.get("part-bytes", 0))
        parts = [body[at : at + step] for at in range(0, len(body), step)] if step else []
        checksum = _of_parts(parts) if parts else _sha256(body)
        said = {"ContentLength": len(body), "ETag": f'"{len(body)}"', "ChecksumSHA256": checksum}
        return {**said, "Metadata": beside}

    def create_multipart_upload(self, **request: Any) -> Json:
        check_request("s3", "CreateMultipartUpload", request)
        name = f"upload-{len(self.uploads)}-{request['Key']}"
        self.uploads[name] = {}
        self.beside[request["Key"]] = request["Metadata"]
        return {"UploadId": name}

    def upload_part_copy(self, **request: Any) -> Json:
        source: Mapping[str, str] = request["CopySource"]
        if request["UploadId"] not in self.uploads:
            raise refusal("NoSuchUpload", "The specified upload does not exist.")
        first, last = map(int, request["CopySourceRange"].removeprefix("bytes=").split("-"))
        part = self.objects[source["Key"]][first : last + 1]
        self.uploads[request["UploadId"]][request["PartNumber"]] = part
        self.copied.append(f"{request['Key']} {request['PartNumber']}")
        number = request["PartNumber"]
        return {"CopyPartResult": {"ETag": f'"{number}"', "ChecksumSHA256": _sha256(part)}}

    def complete_multipart_upload(self, **request: Any) -> Json:
        check_request("s3", "CompleteMultipartUpload", request)
        if (parts := self.uploads.pop(request["UploadId"], None)) is None:
            raise refusal("NoSuchUpload", "The specified upload does not exist.")
        named = request["MultipartUpload"]["Parts"]
        assert [one["ChecksumSHA256"] for one in named] == [
            _sha256(parts[one["PartNumber"]]) for one in named
        ]
        self.objects[request["Key"]] = b"".join(parts[one["PartNumber"]] for one in named)
        return {}


def _sha256(body: bytes) -> str:
    return b64encode(hashlib.sha256(body).digest()).decode()


def _of_parts(parts: list[bytes]) -> str:
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    return f"{_sha256(digests)}-{len(parts)}"


@dataclass
class _Body:
    body: bytes

    def read(self) -> bytes:
        return self.body


@dataclass
class FakeLogs:
    """Streams of CloudWatch: (time in ms, line) by the stream's name."""

    streams: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def describe_log_streams(self, **request: Any) -> Json:
        check_request("logs", "DescribeLogStreams", request)
        prefix = request["logStreamNamePrefix"]
        names = [name for name in self.streams if name.startswith(prefix)]
        return {"logStreams": [{"logStreamName": name} for name in names]}

    def get_log_events(self, **request: Any) -> Json:
        check_request("logs", "GetLogEvents", request)
        since = request.get("startTime", 0)
        lines = [one for one in self.streams[request["logStreamName"]] if one[0] >= since]
        tail = lines[-request["limit"] :]
        return {"events": [{"timestamp": at, "message": words} for at, words in tail]}


class FakeRoles:
    """IAM's roles by name."""

    def __init__(self) -> None:
        self.made: dict[str, NodeRole] = {}

    def ensure(self, role: NodeRole) -> None:
        self.made[role.name] = role

    def delete(self, name: str, path: str) -> None:
        if name in self.made and self.made[name].path == path:
            del self.made[name]

    def below(self, path: str) -> list[FoundRole]:
        return [
            FoundRole(role.name, role.path, NOW)
            for role in self.made.values()
            if role.path.startswith(path)
        ]
