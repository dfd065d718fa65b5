"""The local cloud as a whole, with a sample template: what AWS would do with it, it does."""

from __future__ import annotations

import base64
import concurrent.futures
import hashlib
import json
import os
import signal
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from tests.support import cloud_sample
from tests.support.waiting import eventually

from trainyard_local import control
from trainyard_local.nodes import processes as node_processes


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("cloud")
    template = cloud_sample.write(folder / "app")
    facts = control.up(folder / "state", 0, template)
    yield facts
    control.down(folder / "state")
    assert node_processes.matching(node_processes.of_cloud(Path(facts["stateDir"]))) == []


def client(local: dict[str, Any], service: str, keys: dict[str, str] | None = None) -> Any:
    keys = keys or {
        "aws_access_key_id": local["accessKeyId"],
        "aws_secret_access_key": local["secretAccessKey"],
    }
    return boto3.client(
        service,
        endpoint_url=local["endpoint"],
        region_name=local["region"],
        config=Config(retries={"max_attempts": 0}, max_pool_connections=50),
        **keys,
    )


def role_keys(local: dict[str, Any]) -> dict[str, str]:
    keys = client(local, "sts").assume_role(
        RoleArn=local["outputs"]["Role"], RoleSessionName="test"
    )["Credentials"]
    return {
        "aws_access_key_id": keys["AccessKeyId"],
        "aws_secret_access_key": keys["SecretAccessKey"],
        "aws_session_token": keys["SessionToken"],
    }


def signed(
    local: dict[str, Any], method: str, path: str, body: bytes = b"", **changes: Any
) -> tuple[int, dict[str, str], bytes]:
    url = local["apiUrl"] + path
    keys = Credentials(local["accessKeyId"], changes.get("secret", local["secretAccessKey"]))
    request = AWSRequest(
        method=method, url=url, data=body, headers={"Content-Type": "application/json"}
    )
    SigV4Auth(keys, "execute-api", local["region"]).add_auth(request)
    return send(url, method, changes.get("sent", body), dict(request.headers))


def send(
    url: str, method: str, body: bytes, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data=body or None, method=method, headers=headers),
            timeout=240,
        ) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def token(local: dict[str, Any]) -> dict[str, str]:
    return {"X-Trainyard-Token": local["adminToken"]}


def run_flow(local: dict[str, Any], **payload: Any) -> dict[str, Any]:
    sfn = client(local, "stepfunctions")
    arn = sfn.start_execution(stateMachineArn=local["outputs"]["Flow"], input=json.dumps(payload))[
        "executionArn"
    ]
    return eventually(
        "the flow ends",
        lambda: (d := sfn.describe_execution(executionArn=arn))["status"] != "RUNNING" and d,
        30,
    )


def item(local: dict[str, Any], pk: str, sk: str) -> dict[str, Any] | None:
    return (
        client(local, "dynamodb")
        .get_item(TableName=local["outputs"]["Table"], Key={"pk": {"S": pk}, "sk": {"S": sk}})
        .get("Item")
    )


# ---- what is not done ----


def test_calls_that_the_local_cloud_does_not_do_are_refused_in_words(local: dict[str, Any]) -> None:
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("ssm", "list_commands", {}),
        ("sagemaker", "list_notebook_instances", {}),
        ("sns", "list_phone_numbers_opted_out", {}),
        ("iam", "list_groups", {}),
        ("s3", "put_bucket_acl", {"Bucket": local["bucket"] or "any", "ACL": "private"}),
        ("dynamodb", "list_backups", {}),
    ]
    for service, operation, parameters in calls:
        with pytest.raises(ClientError) as refused:
            getattr(client(local, service), operation)(**parameters)
        assert refused.value.response["Error"]["Code"] == "NotImplemented", (service, operation)
        assert "the local cloud does not do" in refused.value.response["Error"]["Message"]


# ---- the price list ----


def usage_types(local: dict[str, Any]) -> dict[str, float]:
    """What the price list says of one type of instance: USD an hour by usage type."""
    filters = {"regionCode": "us-east-1", "instanceName": "ml.c5.large"}
    terms = [
        {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()
    ]
    found = [
        json.loads(text)
        for text in client(local, "pricing").get_products(
            ServiceCode="AmazonSageMaker", Filters=terms
        )["PriceList"]
    ]
    prices = {}
    for product in found:
        (term,) = product["terms"]["OnDemand"].values()
        (dimension,) = term["priceDimensions"].values()
        prices[product["product"]["attributes"]["usagetype"]] = float(
            dimension["pricePerUnit"]["USD"]
        )
    return prices


def play(local: dict[str, Any], quirk: str, on: bool) -> None:
    body = json.dumps({"name": quirk, "on": on}).encode()
    headers = {"x-trainyard-token": local["adminToken"]}
    request = urllib.request.Request(
        f"{local['endpoint']}/_trainyard/quirk", body, headers, method="POST"
    )
    urllib.request.urlopen(request, timeout=120).close()


def test_nodes_of_the_local_cloud_cost_nothing_unless_they_are_to_cost_something(
    local: dict[str, Any],
) -> None:
    assert usage_types(local) == {"USE1-Studio:ml.c5.large": 0.0, "USE1-Cluster:ml.c5.large": 0.0}
    for quirk, expected in (
        ("nodes-cost-a-dollar", {"USE1-Studio:ml.c5.large": 1.0, "USE1-Cluster:ml.c5.large": 1.0}),
        (
            "prices-have-other-usage-types",
            {"USE1-Studio:ml.c5.large": 0.0, "USE1-Nodes:ml.c5.large": 0.0},
        ),
    ):
        play(local, quirk, True)
        assert usage_types(local) == expected
        play(local, quirk, False)


def test_the_price_list_refuses_whoever_may_not_read_it_and_what_it_does_not_do(
    local: dict[str, Any],
) -> None:
    for keys, code, words in (
        (role_keys(local), "AccessDeniedException", "pricing:GetProducts"),
        (None, "NotImplemented", "the filters are"),
    ):
        with pytest.raises(ClientError) as refused:
            client(local, "pricing", keys).get_products(ServiceCode="AmazonSageMaker", Filters=[])
        assert refused.value.response["Error"]["Code"] == code
        assert words in refused.value.response["Error"]["Message"]


# ---- the gateway ----


def test_a_signed_request_reaches_the_function_as_a_payload_2_event(local: dict[str, Any]) -> None:
    status, headers, body = signed(
        local, "POST", "/v1/runs/run-1:cancel?a=1&a=2&b=%20x", b'{"k": 1}'
    )
    assert status == 201
    assert headers["x-sample"] == "yes"
    assert headers["Set-Cookie"] == "a=b"
    answer = json.loads(body)
    event = answer["event"]
    assert event["version"] == "2.0"
    assert event["routeKey"] == "ANY /v1/{proxy+}"
    assert event["rawPath"] == "/v1/runs/run-1:cancel"
    assert event["pathParameters"] == {"proxy": "runs/run-1:cancel"}
    assert event["queryStringParameters"] == {"a": "1,2", "b": " x"}
    assert event["body"] == '{"k": 1}'
    assert (
        event["requestContext"]["authorizer"]["iam"]["userArn"]
        == "arn:aws:iam::123456789012:user/local"
    )
    assert event["requestContext"]["http"]["method"] == "POST"
    assert answer["greeting"] == "hello"
    assert answer["layer"] == "shared"
    assert answer["plain"] is True
    assert answer["tag"] == local["stateDir"]


def test_a_request_without_a_signature_is_refused(local: dict[str, Any]) -> None:
    status, _, body = send(local["apiUrl"] + "/v1/runs", "GET", b"", {})
    assert (status, json.loads(body)) == (403, {"message": "Missing Authentication Token"})


def test_a_wrong_secret_is_refused(local: dict[str, Any]) -> None:
    status, _, body = signed(local, "GET", "/v1/runs", secret="wrong")
    assert status == 403
    assert "does not match" in json.loads(body)["message"]


def test_a_body_changed_after_signing_is_refused(local: dict[str, Any]) -> None:
    assert signed(local, "POST", "/v1/runs", b'{"a": 1}', sent=b'{"a": 2}')[0] == 403


def test_an_unknown_path_is_not_found(local: dict[str, Any]) -> None:
    assert signed(local, "GET", "/v2/runs")[0] == 404


def test_a_body_over_ten_megabytes_is_too_long(local: dict[str, Any]) -> None:
    assert signed(local, "POST", "/v1/runs", b"x" * (10 * 1024 * 1024 + 1))[0] == 413


def test_a_function_that_raises_answers_500_and_one_that_dies_is_replaced(
    local: dict[str, Any],
) -> None:
    assert signed(local, "GET", "/v1/boom")[0] == 500
    assert signed(local, "GET", "/v1/crash")[0] == 500
    assert signed(local, "GET", "/v1/runs")[0] == 201


def test_a_function_over_its_time_is_killed_and_answers_503(local: dict[str, Any]) -> None:
    assert signed(local, "GET", "/v1/sleep")[0] == 503


def test_a_worker_killed_from_outside_fails_its_call_and_the_next_one_works(
    local: dict[str, Any],
) -> None:
    asleep = Path(local["stateDir"], "asleep")
    asleep.unlink(missing_ok=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        call = pool.submit(signed, local, "GET", "/v1/sleep")
        tags = {"TRAINYARD_LOCAL": local["stateDir"], "AWS_LAMBDA_FUNCTION_NAME": "trainyard-api"}
        eventually("the function sleeps", asleep.exists, 15)
        for process in node_processes.matching(
            lambda environment: tags.items() <= environment.items()
        ):
            os.kill(process.pid, signal.SIGKILL)
        assert call.result(10)[0] == 500
    assert signed(local, "GET", "/v1/runs")[0] == 201


# ---- roles ----


def test_a_function_acts_under_its_own_role(local: dict[str, Any]) -> None:
    _, _, body = signed(local, "GET", "/v1/whoami")
    assert ":assumed-role/trainyard-FunctionRole-" in json.loads(body)["arn"]


def test_a_role_may_do_what_its_policies_say_and_nothing_else(local: dict[str, Any]) -> None:
    assert signed(local, "GET", "/v1/put")[0] == 201
    assert item(local, "a", "b")
    assert signed(local, "GET", "/v1/delete-table")[0] == 500
    denials = control.status(Path(local["stateDir"]))["cloud"]["iam"]["denials"]
    assert any(d["action"] == "dynamodb:DeleteTable" for d in denials)


def test_object_permissions_end_where_the_prefix_ends(local: dict[str, Any]) -> None:
    owner, role = client(local, "s3"), client(local, "s3", role_keys(local))
    for key in ("open/a", "closed/a"):
        owner.put_object(Bucket=local["bucket"], Key=key, Body=b"x")
    assert role.get_object(Bucket=local["bucket"], Key="open/a")["Body"].read() == b"x"
    with pytest.raises(ClientError, match="AccessDenied"):
        role.get_object(Bucket=local["bucket"], Key="closed/a")
    with pytest.raises(ClientError, match="AccessDenied"):
        role.put_object(Bucket=local["bucket"], Key="open/b", Body=b"x")


def test_a_transaction_needs_the_permission_of_each_of_its_parts(local: dict[str, Any]) -> None:
    role, table = client(local, "dynamodb", role_keys(local)), local["outputs"]["Table"]
    put = {"Put": {"TableName": table, "Item": {"pk": {"S": "t"}, "sk": {"S": "1"}}}}
    role.transact_write_items(TransactItems=[put])
    with pytest.raises(ClientError, match="DeleteItem"):
        role.transact_write_items(
            TransactItems=[
                put,
                {"Delete": {"TableName": table, "Key": {"pk": {"S": "t"}, "sk": {"S": "2"}}}},
            ]
        )


def test_keys_that_were_not_issued_are_refused(local: dict[str, Any]) -> None:
    stranger = client(
        local, "dynamodb", {"aws_access_key_id": "AKIASTRANGER", "aws_secret_access_key": "x"}
    )
    with pytest.raises(ClientError, match="AccessDenied"):
        stranger.list_tables()


# ---- state machines ----


def test_a_machine_retries_what_may_be_retried(local: dict[str, Any]) -> None:
    done = run_flow(local, do="retry", key="r1")
    assert done["status"] == "SUCCEEDED"
    assert json.loads(done["output"]) == {"answer": {"tries": 2}}


@pytest.mark.parametrize(
    ("do", "error"),
    [("fail", "ValueError"), ("crash", "Runtime.ExitError"), ("sleep", "Sandbox.Timedout")],
)
def test_a_machine_catches_a_failed_step_by_its_error(
    local: dict[str, Any], do: str, error: str
) -> None:
    assert json.loads(run_flow(local, do=do)["output"])["trouble"]["Error"] == error


def test_a_machine_may_call_only_the_functions_its_role_names(local: dict[str, Any]) -> None:
    assert (
        json.loads(run_flow(local, do="forbidden")["output"])["trouble"]["Error"]
        == "Lambda.AccessDeniedException"
    )


def test_a_wait_that_succeeds_its_own_token_goes_on(local: dict[str, Any]) -> None:
    assert run_flow(local, do="wait", then="at-once")["status"] == "SUCCEEDED"


def test_a_token_wakes_its_wait_once(local: dict[str, Any]) -> None:
    sfn = client(local, "stepfunctions")
    arn = sfn.start_execution(
        stateMachineArn=local["outputs"]["Flow"],
        input=json.dumps({"do": "wait", "then": "store", "key": "w1"}),
    )["executionArn"]
    token = eventually("the first token is stored", lambda: item(local, "w1", "token"), 15)[
        "token"
    ]["S"]
    assert sfn.describe_execution(executionArn=arn)["status"] == "RUNNING"
    sfn.send_task_success(taskToken=token, output="{}")
    eventually(
        "the flow succeeds",
        lambda: sfn.describe_execution(executionArn=arn)["status"] == "SUCCEEDED",
        15,
    )
    with pytest.raises(sfn.exceptions.TaskTimedOut):
        sfn.send_task_success(taskToken=token, output="{}")
    with pytest.raises(sfn.exceptions.InvalidToken):
        sfn.send_task_success(taskToken="never", output="{}")


def test_the_same_name_and_input_starts_one_execution_and_another_input_is_refused(
    local: dict[str, Any],
) -> None:
    sfn, machine = client(local, "stepfunctions"), local["outputs"]["Flow"]
    waiting = json.dumps({"do": "wait", "then": "store", "key": "w2"})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        arns = set(
            pool.map(
                lambda _: sfn.start_execution(stateMachineArn=machine, name="once", input=waiting)[
                    "executionArn"
                ],
                range(8),
            )
        )
    assert len(arns) == 1
    with pytest.raises(sfn.exceptions.ExecutionAlreadyExists):
        sfn.start_execution(stateMachineArn=machine, name="once", input="{}")
    sfn.send_task_success(
        taskToken=eventually("the second token is stored", lambda: item(local, "w2", "token"), 15)[
            "token"
        ]["S"],
        output="{}",
    )
    eventually(
        "the flow succeeds",
        lambda: sfn.describe_execution(executionArn=arns.copy().pop())["status"] == "SUCCEEDED",
        15,
    )
    with pytest.raises(sfn.exceptions.ExecutionAlreadyExists):
        sfn.start_execution(stateMachineArn=machine, name="once", input=waiting)


# ---- events and schedules ----


def put_event(local: dict[str, Any], source: str, detail_type: str, detail: dict[str, Any]) -> None:
    entry = {
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
        "EventBusName": local["outputs"]["Bus"],
    }
    assert client(local, "events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def next_dead_letter(local: dict[str, Any]) -> dict[str, Any]:
    sqs, queue = client(local, "sqs"), local["outputs"]["Queue"]
    message = eventually(
        "a dead letter comes",
        lambda: sqs.receive_message(
            QueueUrl=queue, WaitTimeSeconds=5, MessageAttributeNames=["All"]
        ).get("Messages"),
        20,
    )[0]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return message


def test_an_event_reaches_the_function_of_its_rule(local: dict[str, Any]) -> None:
    put_event(local, "sample", "Happened", {"key": "e1"})
    event = json.loads(
        eventually("the function keeps the event", lambda: item(local, "fact", "e1"), 15)["event"][
            "S"
        ]
    )
    assert (event["source"], event["detail-type"], event["account"], event["version"]) == (
        "sample",
        "Happened",
        "123456789012",
        "0",
    )


def test_an_event_whose_function_keeps_failing_ends_in_the_dead_letter_queue(
    local: dict[str, Any],
) -> None:
    put_event(local, "sample", "Poison", {"key": "p1"})
    message = next_dead_letter(local)
    assert json.loads(message["Body"])["detail"] == {"key": "p1"}
    assert "cannot record this" in message["MessageAttributes"]["ErrorMessage"]["StringValue"]


def test_an_event_that_may_not_be_delivered_ends_in_the_rules_dead_letter_queue(
    local: dict[str, Any],
) -> None:
    put_event(local, "forbidden", "Happened", {"key": "f1"})
    message = next_dead_letter(local)
    assert message["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_PERMISSIONS"


def test_events_over_256_kilobytes_together_are_refused_whole(local: dict[str, Any]) -> None:
    events = client(local, "events")
    entry = {
        "Source": "sample",
        "DetailType": "Happened",
        "Detail": json.dumps({"key": "limit", "text": "x" * 100_000}),
        "EventBusName": local["outputs"]["Bus"],
    }
    with pytest.raises(
        ClientError, match="Total size of the entries in the request is over the limit"
    ) as refused:
        events.put_events(Entries=[entry] * 3)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert events.put_events(Entries=[entry] * 2)["FailedEntryCount"] == 0


def test_an_answer_over_six_megabytes_is_an_error_of_the_function(local: dict[str, Any]) -> None:
    assert signed(local, "GET", "/v1/huge?bytes=5000000")[0] == 200
    status, _, body = signed(local, "GET", "/v1/huge?bytes=6300000")
    assert (status, json.loads(body)) == (500, {"message": "Internal Server Error"})
    answer = client(local, "lambda").invoke(
        FunctionName="trainyard-steps",
        Payload=json.dumps({"do": "huge", "bytes": 6_300_000}).encode(),
    )
    assert answer["FunctionError"] == "Unhandled"
    assert json.loads(answer["Payload"].read())["errorType"] == "Function.ResponseSizeTooLarge"


def test_a_payload_over_lambdas_limit_is_refused(local: dict[str, Any]) -> None:
    for kind, most in (("RequestResponse", 6 * 1024 * 1024), ("Event", 256 * 1024)):
        payload = json.dumps({"text": "x" * most}).encode()
        with pytest.raises(ClientError) as refused:
            client(local, "lambda").invoke(
                FunctionName="trainyard-steps", InvocationType=kind, Payload=payload
            )
        assert refused.value.response["Error"]["Code"] == "RequestTooLargeException"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413


def test_inputs_and_results_of_states_over_256_kilobytes_are_refused(local: dict[str, Any]) -> None:
    sfn = client(local, "stepfunctions")
    with pytest.raises(ClientError, match="less than or equal to 262144"):
        sfn.start_execution(
            stateMachineArn=local["outputs"]["Flow"], input=json.dumps({"text": "x" * 262_144})
        )
    with pytest.raises(ClientError, match="less than or equal to 262144"):
        sfn.send_task_success(taskToken="any", output=json.dumps("x" * 262_144))
    ended = run_flow(local, do="huge", bytes=300_000)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.DataLimitExceeded"), (
        "States.ALL does not catch it"
    )


def test_an_execution_fails_with_its_25000th_event(local: dict[str, Any]) -> None:
    sfn = client(local, "stepfunctions")
    arn = sfn.start_execution(
        stateMachineArn=local["outputs"]["Flow"], input=json.dumps({"do": "spin"})
    )["executionArn"]
    ended = eventually(
        "the flow ends",
        lambda: (d := sfn.describe_execution(executionArn=arn))["status"] != "RUNNING" and d,
        300,
    )
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")
    assert ended["cause"] == "The execution reached the maximum number of history events (25000)."
    newest = sfn.get_execution_history(executionArn=arn, reverseOrder=True, maxResults=2)
    last, before = newest["events"]
    assert (before["id"], before["type"].startswith("Choice")) == (24_999, True)
    assert (last["id"], last["type"], last["executionFailedEventDetails"]["error"]) == (
        25_000,
        "ExecutionFailed",
        "States.Runtime",
    )


@pytest.mark.parametrize("transaction", [False, True])
def test_an_item_over_400_kilobytes_is_refused(local: dict[str, Any], transaction: bool) -> None:
    dynamodb, table = client(local, "dynamodb"), local["outputs"]["Table"]
    put = {
        "TableName": table,
        "Item": {"pk": {"S": "large"}, "sk": {"S": "x"}, "doc": {"B": b"x" * 400 * 1024}},
    }
    with pytest.raises(ClientError) as refused:
        dynamodb.transact_write_items(
            TransactItems=[{"Put": put}]
        ) if transaction else dynamodb.put_item(**put)
    assert "Item size" in str(refused.value)
    assert item(local, "large", "x") is None


def test_a_schedule_invokes_its_function(local: dict[str, Any]) -> None:
    status, _, body = send(
        local["endpoint"] + "/_trainyard/fire",
        "POST",
        b'{"schedule": "trainyard-minutely"}',
        token(local),
    )
    assert (status, json.loads(body)) == (202, {"fired": "trainyard-minutely"})
    event = json.loads(
        eventually("the function keeps the event", lambda: item(local, "fact", "scheduled"), 15)[
            "event"
        ]["S"]
    )
    assert (event["source"], event["detail-type"], event["detail"]) == (
        "aws.scheduler",
        "Scheduled Event",
        "{}",
    )


def test_what_a_function_prints_is_in_its_log_group(local: dict[str, Any]) -> None:
    put_event(local, "sample", "Loud", {"key": "l1"})
    logs = client(local, "logs")
    found = eventually(
        "the log has the event",
        lambda: logs.filter_log_events(
            logGroupName="/aws/lambda/trainyard-fact", filterPattern="Loud"
        )["events"],
        15,
    )
    assert found[0]["message"] == "a fact: Loud"


# ---- data ----


def test_concurrent_counters_and_conditional_writes_lose_nothing(local: dict[str, Any]) -> None:
    ddb, table = client(local, "dynamodb"), local["outputs"]["Table"]

    def once(n: int) -> bool:
        ddb.update_item(
            TableName=table,
            Key={"pk": {"S": "count"}, "sk": {"S": "x"}},
            UpdateExpression="ADD n :o",
            ExpressionAttributeValues={":o": {"N": "1"}},
        )
        try:
            ddb.put_item(
                TableName=table,
                Item={"pk": {"S": "once"}, "sk": {"S": str(n % 10)}},
                ConditionExpression="attribute_not_exists(pk)",
            )
        except ddb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        won = list(pool.map(once, range(200)))
    assert item(local, "count", "x")["n"]["N"] == "200"  # type: ignore[index]
    assert sum(won) == 10


def test_the_table_has_its_index_and_point_in_time_recovery(local: dict[str, Any]) -> None:
    ddb, table = client(local, "dynamodb"), local["outputs"]["Table"]
    ddb.put_item(TableName=table, Item={"pk": {"S": "i"}, "sk": {"S": "1"}, "gpk": {"S": "group"}})
    hits = ddb.query(
        TableName=table,
        IndexName="gsi1",
        KeyConditionExpression="gpk = :g",
        ExpressionAttributeValues={":g": {"S": "group"}},
    )
    assert hits["Count"] == 1
    backups = ddb.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"


def put_url(local: dict[str, Any], body: bytes, seconds: int = 600) -> tuple[str, dict[str, str]]:
    """A presigned URL that binds hash and size, and the headers that it demands."""
    checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
    bound = {"ContentLength": len(body), "ChecksumSHA256": checksum}
    s3 = boto3.client(
        "s3",
        endpoint_url=local["endpoint"],
        region_name=local["region"],
        config=Config(signature_version="s3v4"),
        aws_access_key_id=local["accessKeyId"],
        aws_secret_access_key=local["secretAccessKey"],
    )
    url: str = s3.generate_presigned_url(
        "put_object", Params={"Bucket": local["bucket"], "Key": "up", **bound}, ExpiresIn=seconds
    )
    return url, {"x-amz-checksum-sha256": checksum, "content-length": str(len(body))}


def test_a_presigned_url_takes_the_very_bytes_that_it_was_made_for(local: dict[str, Any]) -> None:
    url, headers = put_url(local, b"content")
    assert httpx.put(url, content=b"content", headers=headers).status_code == 200
    head = client(local, "s3").head_object(Bucket=local["bucket"], Key="up", ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"] == headers["x-amz-checksum-sha256"]
    other = httpx.put(url, content=b"CONTENT", headers=headers)
    assert (other.status_code, "BadDigest" in other.text) == (400, True)
    assert httpx.put(url, content=b"content").status_code == 403
    longer = httpx.put(url, content=b"content!", headers={**headers, "content-length": "8"})
    assert longer.status_code == 403


@pytest.mark.parametrize("body", [b"key=a&b=%41+c\n", b"\x80\x00weights&=\xff", b"print(1)\n"])
def test_what_is_put_is_never_read_as_a_form(local: dict[str, Any], body: bytes) -> None:
    """`curl --data-binary` says that it sends a form, whatever it sends."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    url, headers = put_url(local, body)
    answer = httpx.put(url, content=body, headers={**headers, **form})
    assert answer.status_code == 200, answer.text
    got = client(local, "s3").get_object(Bucket=local["bucket"], Key="up")
    assert (got["Body"].read(), got["ContentType"]) == (body, form["content-type"])


def test_a_presigned_url_ends_when_it_says(local: dict[str, Any]) -> None:
    url, headers = put_url(local, b"content", seconds=1)

    def refused() -> bool:
        answer = httpx.put(url, content=b"content", headers=headers)
        return answer.status_code == 403 and "Request has expired" in answer.text

    eventually("the URL has expired", refused, 20)


def test_the_checksum_of_an_object_is_kept(local: dict[str, Any]) -> None:
    s3 = client(local, "s3")
    checksum = base64.b64encode(hashlib.sha256(b"content").digest()).decode()
    s3.put_object(Bucket=local["bucket"], Key="sum", Body=b"content", ChecksumSHA256=checksum)
    head = s3.head_object(Bucket=local["bucket"], Key="sum", ChecksumMode="ENABLED")
    assert (head["ChecksumSHA256"], head["ContentLength"]) == (checksum, 7)
    s3.put_object(Bucket=local["bucket"], Key="sum2", Body=b"content", ChecksumAlgorithm="SHA256")
    assert (
        s3.head_object(Bucket=local["bucket"], Key="sum2", ChecksumMode="ENABLED")["ChecksumSHA256"]
        == checksum
    )
    with pytest.raises(ClientError):
        s3.put_object(Bucket=local["bucket"], Key="sum3", Body=b"other", ChecksumSHA256=checksum)


def test_a_large_object_survives_a_multipart_upload(local: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(20 * 1024 * 1024))
    s3 = client(local, "s3")
    s3.upload_file(str(tmp_path / "big"), local["bucket"], "big")
    s3.download_file(local["bucket"], "big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "big").read_bytes()


def test_a_function_can_be_invoked_by_its_api(local: dict[str, Any]) -> None:
    answer = client(local, "lambda").invoke(
        FunctionName="trainyard-steps", Payload=b'{"do": "fail"}'
    )
    assert answer["FunctionError"] == "Unhandled"
    assert json.loads(answer["Payload"].read())["errorType"] == "ValueError"


# ---- the process ----


def test_local_json_is_for_its_owner_only(local: dict[str, Any]) -> None:
    path = Path(local["stateDir"]) / "local.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == local


def test_another_cloud_runs_beside_it_and_its_port_and_state_are_its_own(
    local: dict[str, Any], tmp_path: Path
) -> None:
    template = cloud_sample.write(tmp_path / "app")
    port = int(local["endpoint"].rsplit(":", 1)[1])
    with pytest.raises(
        control.InTheWay, match=f"cannot listen on 127.0.0.1:{port}.*another --port"
    ):
        control.up(tmp_path / "state", port, template)
    with pytest.raises(control.InTheWay, match=r"running already.*trainyard local down"):
        control.up(Path(local["stateDir"]), 0, template)
    other = control.up(tmp_path / "state", 0, template)
    try:
        assert signed(other, "GET", "/v1/runs")[0] == 201
        os.kill(other["pid"], signal.SIGKILL)
    finally:
        ended = control.down(tmp_path / "state")
    assert not ended["graceful"]
    assert node_processes.matching(node_processes.of_cloud(Path(other["stateDir"]))) == []
    assert not (tmp_path / "state" / "local.json").exists()
    assert control.down(tmp_path / "state") == {"stopped": False, "graceful": False, "killed": 0}
    assert signed(local, "GET", "/v1/runs")[0] == 201


def test_a_template_that_cannot_be_deployed_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    template = cloud_sample.write(
        tmp_path / "app",
        template=cloud_sample.TEMPLATE.replace("rate(1 minute)", "cron(0 12 * * *)"),
    )
    with pytest.raises(
        control.Unusable, match=r"FactFunctionMinutely.*fires rate\(...\) schedules only"
    ):
        control.up(tmp_path / "state", 0, template)
    assert node_processes.matching(node_processes.of_cloud(tmp_path / "state")) == []
    assert not (tmp_path / "state" / "functions").exists()


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(control.Unusable, match="cannot be the state directory"):
        control.up(tmp_path / "file" / "state", 0, cloud_sample.write(tmp_path / "app"))


def test_a_request_for_another_host_name_is_refused(local: dict[str, Any]) -> None:
    assert (
        send(local["endpoint"] + "/_trainyard/status", "GET", b"", {"Host": "evil.example"})[0]
        == 421
    )
    assert (
        send(
            local["endpoint"] + "/_trainyard/shutdown",
            "POST",
            b"",
            {"Origin": "https://evil.example"},
        )[0]
        == 421
    )


def test_admin_calls_need_the_token_that_only_the_owner_of_the_state_directory_can_read(
    local: dict[str, Any],
) -> None:
    for method, call in (
        ("GET", "status"),
        ("POST", "fault"),
        ("POST", "fire"),
        ("POST", "shutdown"),
    ):
        for headers in ({}, {"X-Trainyard-Token": "wrong"}, {"X-Trainyard-Token": ""}):
            status, _, body = send(f"{local['endpoint']}/_trainyard/{call}", method, b"{}", headers)
            assert (status, "local.json" in json.loads(body)["message"]) == (403, True)
    assert send(local["endpoint"] + "/_trainyard/status", "GET", b"", token(local))[0] == 200
    assert stat.S_IMODE((Path(local["stateDir"]) / "local.json").stat().st_mode) == 0o600


def test_the_server_ends_in_good_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = control.up(tmp_path / "state", 0, cloud_sample.write(tmp_path / "app"))
    left: list[str] = []
    kill = node_processes.kill

    def noted(wanted: Any, spare: Any = ()) -> int:
        left.extend(
            f"{process.pid} {process.command}" for process in node_processes.matching(wanted, spare)
        )
        return kill(wanted, spare)

    monkeypatch.setattr(node_processes, "kill", noted)
    ended = control.down(tmp_path / "state")
    assert ended["stopped"]
    assert ended["graceful"]
    assert (ended["killed"], left) == (0, [])
    assert not node_processes.alive(facts["pid"])


def test_a_cloud_whose_state_directory_was_removed_is_ended_all_the_same(tmp_path: Path) -> None:
    state_dir = tmp_path / "removed"
    process = subprocess.Popen(["sleep", "300"], env={**os.environ, control.TAG: str(state_dir)})
    assert control.down(state_dir)["killed"] == 1
    assert process.wait(120) == -signal.SIGKILL
    assert control.down(tmp_path / "never") == {"stopped": False, "graceful": False, "killed": 0}
    assert not (tmp_path / "never").exists()


def test_the_name_of_a_deleted_secret_is_taken_for_a_while(local: dict[str, Any]) -> None:
    secrets = client(local, "secretsmanager")
    secrets.create_secret(Name="again", SecretString="1")
    secrets.delete_secret(SecretId="again", ForceDeleteWithoutRecovery=True)
    with pytest.raises(ClientError, match="scheduled for deletion") as refused:
        secrets.create_secret(Name="again", SecretString="2")
    assert refused.value.response["Error"]["Code"] == "InvalidRequestException"

    def made() -> bool:
        try:
            return bool(secrets.create_secret(Name="again", SecretString="2")["ARN"])
        except ClientError:
            return False

    assert eventually("the name is free again", made, 15)


def greeting(local: dict[str, Any]) -> str:
    status, _, body = signed(local, "GET", "/v1/hello")
    assert status == 201, body
    return str(json.loads(body)["greeting"])


def test_an_update_runs_the_new_code_and_keeps_what_is_there(tmp_path: Path) -> None:
    app, state_dir = tmp_path / "app", tmp_path / "state"
    template = cloud_sample.write(app)
    local = control.up(state_dir, 0, template)
    try:
        signed(local, "GET", "/v1/put")
        first = greeting(local)
        waiting = client(local, "stepfunctions").start_execution(
            stateMachineArn=local["outputs"]["Flow"],
            input=json.dumps({"do": "wait", "then": "store", "key": "w"}),
        )["executionArn"]
        stored = eventually("the token is stored", lambda: item(local, "w", "token"), 15)
        template.write_text(template.read_text().replace("Default: hello", "Default: welcome"))
        seven = {"Type": "Pass", "Result": 7, "End": True}
        flow = {"StartAt": "Only", "States": {"Only": seven}}
        (app / "flow.asl.json").write_text(json.dumps(flow))
        control.update(state_dir, template)
        assert (first, greeting(local)) == ("hello", "welcome")
        assert json.loads(run_flow(local)["output"]) == 7
        assert item(local, "a", "b") is not None
        states = client(local, "stepfunctions")
        states.send_task_success(taskToken=stored["token"]["S"], output="{}")
        ended = lambda: states.describe_execution(executionArn=waiting)["status"] == "SUCCEEDED"  # noqa: E731
        eventually("the flow succeeds", ended, 15)

        template.write_text(template.read_text().replace("gsi1", "gsi2").replace("welcome", "bye"))
        refused = r"Table \(AWS::DynamoDB::Table\): .*the indexes \['gsi1'\] would go"
        with pytest.raises(control.Unusable, match=refused):
            control.update(state_dir, template)
        assert greeting(local) == "welcome"
        template.write_text("{}")
        with pytest.raises(control.Unusable, match="no CloudFormation template"):
            control.update(state_dir, template)
        assert greeting(local) == "welcome"
    finally:
        control.down(state_dir)
    with pytest.raises(control.ControlError, match="no local cloud is up"):
        control.update(state_dir, template)
