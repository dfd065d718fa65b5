"""The small adapters (bucket, state machines, secrets) on moto."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws
from tests.support.spec_parts import ON_FSX
from tests.support.store_table import ENVIRONMENT

from trainyard.aws.blobs import S3Blobs
from trainyard.aws.dead_letters import QueueDeadLetters
from trainyard.aws.directories import S3Directories
from trainyard.aws.executions import StateMachines
from trainyard.aws.exports import S3Exports
from trainyard.aws.pricing import PriceList
from trainyard.aws.refusals import translated
from trainyard.aws.secrets import SecretKeys
from trainyard.aws.sources import S3Sources
from trainyard.aws.uploads import S3Uploads
from trainyard.backends.hyperpod.prices import product
from trainyard.domain import errors
from trainyard.outside.directories import Directory
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.files import ExportedObject, ExportManifest
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.trees import Pack


@pytest.fixture(autouse=True)
def aws() -> Iterator[None]:
    with patch.dict(os.environ, ENVIRONMENT), mock_aws():
        for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
            del os.environ[name]
        yield


@pytest.fixture
def blobs() -> S3Blobs:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="sagemaker-data")
    return S3Blobs(s3, "sagemaker-data")


def test_an_object_comes_back_with_its_size_and_checksum(blobs: S3Blobs) -> None:
    blobs.put("runs/r/bundle.json", b"{}")
    assert blobs.get("runs/r/bundle.json") == b"{}"
    assert blobs.head("runs/r/bundle.json") == (
        2,
        base64.b64encode(hashlib.sha256(b"{}").digest()).decode(),
    )


def test_an_object_that_is_not_there_is_said_so(blobs: S3Blobs) -> None:
    assert blobs.head("none") is None
    with pytest.raises(errors.BlobNotFound):
        blobs.get("none")


def test_an_object_that_went_up_in_parts_shows_the_checksum_of_its_parts(blobs: S3Blobs) -> None:
    class MultipartHead:
        def head_object(self, **_: Any) -> dict[str, Any]:
            return {"ContentLength": 9, "ChecksumSHA256": "abc=-3"}

    assert S3Blobs(MultipartHead(), "sagemaker-data").head("big") == (9, "abc=-3")


def machine() -> StateMachines:
    role = boto3.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"][
        "Arn"
    ]
    made = boto3.client("stepfunctions").create_state_machine(
        name="trainyard-run", definition='{"StartAt":"a","States":{}}', roleArn=role
    )
    arn = made["stateMachineArn"]
    return StateMachines(
        boto3.client("stepfunctions"), {"run": arn, "cluster": arn, "teardown": arn}
    )


def test_starting_the_same_execution_twice_is_one_start() -> None:
    machines = machine()
    assert machines.status("run", "run-1-1") is None
    machines.start("run", "run-1-1", {"runId": "run-1", "generation": 1})
    machines.start("run", "run-1-1", {"runId": "run-1", "generation": 1})
    assert machines.status("run", "run-1-1") == "RUNNING"
    assert (
        len(
            boto3.client("stepfunctions").list_executions(stateMachineArn=machines._arns["run"])[
                "executions"
            ]
        )
        == 1
    )


@pytest.mark.parametrize(
    ("code", "woken"),
    [("TaskTimedOut", False), ("TaskDoesNotExist", False), ("InvalidToken", False), (None, True)],
)
def test_waking_a_machine_whose_token_is_spent_is_false(code: str | None, woken: bool) -> None:
    class Sfn:
        def send_task_success(self, **request: str) -> None:
            assert json.loads(request["output"]) == {"woken": True}
            if code:
                raise ClientError({"Error": {"Code": code, "Message": ""}}, "SendTaskSuccess")

    assert StateMachines(Sfn(), {}).succeed("token", {"woken": True}) is woken


def test_a_secret_is_made_once_and_deleted_for_good() -> None:
    client = boto3.client("secretsmanager")
    keys = SecretKeys(client, "prod")
    arn = keys.ensure("trainyard/prod/demo/agent-key")
    value = client.get_secret_value(SecretId=arn)["SecretString"]
    assert len(value) == 64
    assert keys.ensure("trainyard/prod/demo/agent-key") == arn
    assert client.get_secret_value(SecretId=arn)["SecretString"] == value
    keys.delete("trainyard/prod/demo/agent-key")
    keys.delete("trainyard/prod/demo/agent-key")
    assert keys.ensure("trainyard/prod/demo/agent-key")


def test_a_key_is_read_once_for_many_events_and_again_when_it_is_doubted() -> None:
    class Counting:
        asked = 0

        def get_secret_value(self, SecretId: str) -> dict[str, str]:
            self.asked += 1
            if SecretId == "missing":
                raise ClientError(
                    {"Error": {"Code": "ResourceNotFoundException", "Message": "no"}},
                    "GetSecretValue",
                )
            return {"SecretString": f"{SecretId} {self.asked}"}

    client, now = Counting(), [0.0]
    keys = SecretKeys(client, "prod", monotonic=lambda: now[0])
    assert [keys.read("a"), keys.read("a"), keys.read("a", fresh=True)] == ["a 1"] * 3, (
        "doubt does not ask more than every 5 s"
    )
    now[0] = 6
    assert [keys.read("a"), keys.read("a", fresh=True)] == ["a 1", "a 2"]
    now[0] = 400
    assert keys.read("a") == "a 3"
    assert [keys.read("missing"), keys.read("missing"), client.asked] == [None, None, 4]
    now[0] = 406
    assert keys.read("missing") is None
    assert client.asked == 5, "a key that was not there may be there now"


def test_a_name_whose_secret_is_still_being_deleted_is_tried_again() -> None:
    class Leaving:
        def create_secret(self, **request: Any) -> None:
            message = (
                "You can't create this secret because a secret with this name is already "
                "scheduled for deletion."
            )
            raise ClientError(
                {"Error": {"Code": "InvalidRequestException", "Message": message}}, "CreateSecret"
            )

    with pytest.raises(errors.RetryableError, match="scheduled for deletion"):
        SecretKeys(Leaving(), "prod").ensure("trainyard/prod/demo/agent-key")


SPEC = read_cluster_spec({
    "name": "demo",
    **ON_FSX,
    "instanceGroups": [
        {"name": "head", "role": "controller", "instanceType": "ml.m5.xlarge", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.p5.48xlarge", "count": 2,
         "spares": 1},
    ],
})  # fmt: skip


class Pricing:
    """Products that carry their type in one field, as the price list has them."""

    def __init__(self, prices: dict[str, str], field: str = "instanceName") -> None:
        self.prices, self.field, self.calls = prices, field, 0

    def get_products(
        self, *, ServiceCode: str, Filters: list[dict[str, str]], MaxResults: int
    ) -> dict[str, Any]:
        self.calls += 1
        wanted = {entry["Field"]: entry["Value"] for entry in Filters}
        if self.field not in wanted:
            return {"PriceList": []}
        name = wanted[self.field].removesuffix("-Cluster")
        products = [("USE1-Host:" + name, "9.99"), ("USE1-ReservedCluster:" + name, "0.0")]
        if name in self.prices:
            products.append(("USE1-Cluster:" + name, self.prices[name]))
        return {"PriceList": [_product(usage, price) for usage, price in products]}


def _product(usage: str, price: str) -> str:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": price}}
    term = {"OnDemand": {"X.Y": {"priceDimensions": {"X.Y.Z": dimension}}}}
    return json.dumps({"product": {"attributes": {"usagetype": usage}}, "terms": term})


@pytest.mark.parametrize(("field", "calls"), [("instanceName", 2), ("instanceType", 4)])
def test_a_cluster_costs_the_cluster_price_of_every_instance_spares_included(
    field: str, calls: int
) -> None:
    pricing = Pricing({"ml.m5.xlarge": "0.25", "ml.p5.48xlarge": "100"}, field)
    prices = PriceList(pricing, "us-east-1")
    assert prices.hourly_usd(SPEC, product) == 300.25, "what is reserved is billed otherwise"
    assert prices.hourly_usd(SPEC, product) == 300.25
    assert pricing.calls == calls, "a price is asked for once"


def test_a_price_that_the_list_does_not_know_is_none_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert (
        PriceList(Pricing({"ml.m5.xlarge": "0.25"}), "us-east-1").hourly_usd(SPEC, product) is None
    )
    assert "ml.p5.48xlarge" in caplog.text


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ThrottlingException", errors.Throttled),
        ("InternalServerError", errors.RetryableError),
        ("AccessDenied", errors.TrainyardError),
    ],
)
def test_a_refusal_becomes_an_error_of_our_own(
    code: str, expected: type[errors.TrainyardError]
) -> None:
    with pytest.raises(expected, match="because") as caught, translated("read the table"):
        raise ClientError({"Error": {"Code": code, "Message": "because"}}, "GetItem")
    assert type(caught.value) is expected


def test_a_call_that_does_not_go_through_is_retryable() -> None:
    with pytest.raises(errors.RetryableError), translated("read the table"):
        raise EndpointConnectionError(endpoint_url="https://dynamodb")


def test_dead_letters_are_taken_in_batches_hidden_from_others_and_forgotten_by_their_receipts() -> (
    None
):
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName="dead")["QueueUrl"]
    for number in range(25):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    letters = QueueDeadLetters(sqs, url)
    taken = letters.take(23)
    assert len({letter.body for letter in taken}) == 23
    rest = letters.take(23)
    assert {letter.body for letter in taken + rest} == {str(number) for number in range(25)}
    for letter in taken + rest:
        letters.forget(letter)
    letters.forget(taken[0])
    counted = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (
        counted["ApproximateNumberOfMessages"],
        counted["ApproximateNumberOfMessagesNotVisible"],
    ) == ("0", "0")


@pytest.fixture
def uploads(blobs: S3Blobs) -> S3Uploads:
    return S3Uploads(blobs._s3, "sagemaker-data")


def part_of(body: bytes) -> Pack:
    return Pack(sha256=hashlib.sha256(body).hexdigest(), bytes=len(body))


def test_an_upload_is_held_with_its_very_bytes_only(blobs: S3Blobs, uploads: S3Uploads) -> None:
    part = part_of(b"some files")
    assert uploads.held(part) is None
    blobs.put(f"uploads/{part.sha256}", b"some files")
    assert uploads.held(part) is not None
    assert uploads.held(part.changed(bytes=3)) is None
    blobs.put(f"uploads/{part.sha256}", b"other file")
    assert uploads.held(part) is None


def test_a_copy_has_the_same_checksum(blobs: S3Blobs, uploads: S3Uploads) -> None:
    part = part_of(b"some files")
    source = f"uploads/{part.sha256}"
    assert not uploads.copy(source, "runs/r/code/x")
    blobs.put(source, b"some files")
    assert uploads.copy(source, "runs/r/code/x")
    assert blobs.head("runs/r/code/x") == blobs.head(source)


def manifest(keys: list[str]) -> bytes:
    objects = [ExportedObject(key=key, bytes=1, sha256="0" * 64) for key in keys]
    made = ExportManifest(run_id="r", created_at=datetime.now(timezone.utc), objects=objects)
    return made.model_dump_json(by_alias=True, indent=1).encode()


def test_a_long_manifest_is_read_by_ranges_and_a_replaced_one_is_refused() -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="sagemaker-data")
    exports, blobs = S3Exports(s3, "sagemaker-data"), S3Blobs(s3, "sagemaker-data")
    keys = [f"output/{number:05}-é" for number in range(1200)]
    blobs.put("m", manifest(keys))
    first = exports.objects("m", limit=500, token=None).next_token
    second = exports.objects("m", limit=500, token=first)
    third = exports.objects("m", limit=500, token=second.next_token)
    assert [entry.key for entry in [*second.items, *third.items]] == keys[500:]
    assert third.next_token is None
    blobs.put("m", manifest(keys[:600]))
    with pytest.raises(errors.ConflictError):
        exports.objects("m", limit=500, token=first)
    with pytest.raises(errors.BadPageToken):
        exports.objects("other", limit=500, token=first)
    with pytest.raises(errors.BlobNotFound):
        exports.objects("none", limit=500, token=None)
    blobs.put("bad", b"{}")
    with pytest.raises(errors.TrainyardError, match="is not a manifest"):
        exports.objects("bad", limit=500, token=None)


def test_a_url_reads_one_object_for_a_while() -> None:
    s3 = boto3.client("s3")
    url = S3Exports(s3, "sagemaker-data").url("runs/r/export/a b", seconds=60)
    assert "/runs/r/export/a%20b?" in url
    assert "Expires" in url


# -- what runs read ------------------------------------------------------------------------------
def test_what_a_run_wants_to_read_is_there_or_not_as_far_as_we_may_see(blobs: S3Blobs) -> None:
    blobs.put("v1/a.txt", b"text")
    sources = S3Sources(blobs._s3)
    found = {
        source: sources.look(S3Prefix.of(source))
        for source in ("s3://sagemaker-data/v1", "s3://sagemaker-data/v", "s3://sagemaker-none/")
    }
    assert list(found.values()) == ["there", "empty", "no-bucket"]

    class Denied:
        def list_objects_v2(self, **_: Any) -> None:
            error = {"Error": {"Code": "AccessDenied", "Message": "no"}}
            raise ClientError(error, "ListObjectsV2")

    assert S3Sources(Denied()).look(S3Prefix.of("s3://theirs/")) == "unknown"


def test_a_directory_of_a_run_is_found_and_what_an_export_takes_of_it_deleted(
    blobs: S3Blobs,
) -> None:
    found = S3Directories(blobs._s3, "sagemaker-data")
    top = "directories/c-1/run-1/"
    parts = ("checkpoints/s/manifest.json", "checkpoints/s/a.pt", "output/b", "final/c", "work/d")
    for name in (*parts, "attempts/j/output/model.tar.gz", "code/git.json"):
        blobs.put(f"{top}{name}", b"x")
    blobs.put("directories/c-2/run-2/output/x", b"x")
    assert found.clusters() == ["c-1", "c-2"]
    [directory] = found.of("c-1")
    assert directory == Directory("c-1", "run-1")

    assert found.files(directory) == dict.fromkeys(parts, 1)
    found.delete(directory, ["checkpoints/s/manifest.json"])
    assert set(found.files(directory)) == set(parts[1:])
    found.delete(directory, parts)
    assert found.files(directory) == {}

    # SageMaker's own upload is in no export, so it stays, as do other runs.
    assert blobs.head(f"{top}attempts/j/output/model.tar.gz") is not None
    assert blobs.head("directories/c-2/run-2/output/x") is not None
