"""The services of the local cloud judge signatures as AWS does: the secret, and the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore import auth
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.support import cloud_sample

from trainyard_local import control

BUCKET, KEY = "signed-here", "a key/with ümlauts & more=?.txt"
#: One call of each service, with the code that AWS gives and its status.
CALLS: dict[str, tuple[str, dict[str, Any], str, int]] = {
    "dynamodb": ("list_tables", {}, "InvalidSignatureException", 400),
    "events": ("list_event_buses", {}, "InvalidSignatureException", 400),
    "iam": ("get_role", {"RoleName": "nobody"}, "SignatureDoesNotMatch", 403),
    "lambda": ("list_functions", {}, "InvalidSignatureException", 403),
    "logs": ("describe_log_groups", {}, "InvalidSignatureException", 400),
    "s3": ("get_object", {"Bucket": BUCKET, "Key": KEY}, "SignatureDoesNotMatch", 403),
    "sagemaker": ("list_clusters", {}, "InvalidSignatureException", 400),
    "scheduler": ("list_schedules", {}, "InvalidSignatureException", 403),
    "secretsmanager": ("list_secrets", {}, "InvalidSignatureException", 400),
    "sns": ("list_topics", {}, "SignatureDoesNotMatch", 403),
    "sqs": ("list_queues", {}, "InvalidSignatureException", 400),
    "ssm": ("describe_instance_information", {}, "InvalidSignatureException", 400),
    "stepfunctions": ("list_state_machines", {}, "InvalidSignatureException", 400),
    "sts": ("get_caller_identity", {}, "SignatureDoesNotMatch", 403),
}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("cloud")
    facts = control.up(folder / "state", 0, cloud_sample.write(folder / "app"))
    yield facts
    control.down(folder / "state")


def client(local: dict[str, Any], service: str, secret: str | None = None) -> Any:
    return boto3.client(
        service,
        endpoint_url=local["endpoint"],
        region_name=local["region"],
        aws_access_key_id=local["accessKeyId"],
        aws_secret_access_key=secret or local["secretAccessKey"],
        config=Config(retries={"max_attempts": 0}),
    )


def refused(call: Any, **parameters: Any) -> tuple[str, int, str]:
    with pytest.raises(ClientError) as error:
        call(**parameters)
    said, answer = error.value.response["Error"], error.value.response["ResponseMetadata"]
    return said["Code"], answer["HTTPStatusCode"], said["Message"]


@pytest.mark.parametrize("service", CALLS)
def test_a_wrong_secret_is_refused_in_the_words_of_the_service(
    local: dict[str, Any], service: str
) -> None:
    operation, parameters, code, status = CALLS[service]

    said = refused(getattr(client(local, service, "not the secret"), operation), **parameters)

    assert said[:2] == (code, status)
    assert said[2].startswith("The request signature we calculated does not match")


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("service", ["dynamodb", "s3", "sns"])
def test_a_clock_that_is_an_hour_off_is_refused(
    local: dict[str, Any], service: str, hours: int
) -> None:
    operation, parameters, _, _ = CALLS[service]
    then = datetime.now(timezone.utc).replace(tzinfo=None) + timedelta(hours=hours)
    call = getattr(client(local, service), operation)

    with mock.patch.object(auth, "get_current_datetime", return_value=then):
        code, _, message = refused(call, **parameters)

    if service == "s3":
        assert code == "RequestTimeTooSkewed"
    else:
        assert ("expired" if hours < 0 else "not yet current") in message
        assert f"is now {'earlier' if hours < 0 else 'later'} than" in message


def test_objects_of_any_name_and_body_are_put_and_read_by_whoever_signs_rightly(
    local: dict[str, Any], tmp_path: Path
) -> None:
    s3 = client(local, "s3")
    s3.create_bucket(Bucket=BUCKET)
    body = bytes(range(256)) * 40_000
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=body, Metadata={"kept": "a  b"})
    (tmp_path / "large").write_bytes(body)
    s3.upload_file(str(tmp_path / "large"), BUCKET, "by/parts")

    assert s3.get_object(Bucket=BUCKET, Key=KEY)["Body"].read() == body
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix="by/")["Contents"][0]["Size"] == len(body)
    assert (
        refused(client(local, "s3", "another").put_object, Bucket=BUCKET, Key="never", Body=b"x")[0]
        == "SignatureDoesNotMatch"
    )
    assert [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == [
        KEY,
        "by/parts",
    ]
