"""Requests are signed and go where the API has its operations; an answer becomes a class."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from trainyard.backends.parallelcluster.api import ParallelClusterApi, Reply, over_http
from trainyard.backends.parallelcluster.refusals import Gone, Invalid
from trainyard.domain import errors

Json = dict[str, Any]
URL = "https://abc.execute-api.us-east-1.amazonaws.com/prod"
SUMMARY = {"clusterName": "demo", "clusterStatus": "CREATE_IN_PROGRESS", "version": "3.16.1"}


class Recorded:
    """A transport that keeps requests and gives the answers that a test put there."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.requests: list[AWSRequest] = []

    def __call__(self, request: AWSRequest) -> Reply:
        self.requests.append(request)
        status, body = self.answers.pop(0)
        return Reply(status, body if isinstance(body, bytes) else json.dumps(body).encode())

    @property
    def asked(self) -> list[tuple[str, str, Json]]:
        """Method, path and query of each request."""
        parts = [(request.method, urlsplit(request.url)) for request in self.requests]
        return [(method, url.path, dict(parse_qsl(url.query))) for method, url in parts]


def api(transport: Recorded) -> ParallelClusterApi:
    credentials = Credentials("AKID", "SECRET", "TOKEN")
    return ParallelClusterApi(f"{URL}/", "us-east-1", lambda: credentials, transport)


def test_a_request_is_signed_for_api_gateway_with_the_callers_session() -> None:
    sent = Recorded((200, {**SUMMARY, "clusterStatus": "CREATE_COMPLETE"}))
    api(sent).describe("demo")
    headers = sent.requests[0].headers
    assert "AKID/" in headers["Authorization"]
    assert "/us-east-1/execute-api/aws4_request" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "TOKEN"
    assert sent.asked == [("GET", "/prod/v3/clusters/demo", {"region": "us-east-1"})]


@pytest.mark.parametrize(
    ("call", "method", "path", "query", "body", "answer"),
    [
        (
            lambda it: it.create("demo", "C"),
            "POST",
            "",
            {"rollbackOnFailure": "true"},
            {"clusterName": "demo", "clusterConfiguration": "C"},
            {"cluster": SUMMARY},
        ),
        (
            lambda it: it.create("demo", "C", rollback=False),
            "POST",
            "",
            {"rollbackOnFailure": "false"},
            {"clusterName": "demo", "clusterConfiguration": "C"},
            {"cluster": SUMMARY},
        ),
        (
            lambda it: it.update("demo", "C"),
            "PUT",
            "/demo",
            {},
            {"clusterConfiguration": "C"},
            {"cluster": SUMMARY},
        ),
        (lambda it: it.delete("demo"), "DELETE", "/demo", {}, None, {"cluster": SUMMARY}),
        (
            lambda it: it.fleet("demo"),
            "GET",
            "/demo/computefleet",
            {},
            None,
            {"status": "RUNNING"},
        ),
        (
            lambda it: it.set_fleet("demo", running=False),
            "PATCH",
            "/demo/computefleet",
            {},
            {"status": "STOP_REQUESTED"},
            {"status": "STOP_REQUESTED"},
        ),
        (
            lambda it: list(it.instances("demo", queue="q")),
            "GET",
            "/demo/instances",
            {"queueName": "q"},
            None,
            {"instances": []},
        ),
        (
            lambda it: list(it.log_streams("demo")),
            "GET",
            "/demo/logstreams",
            {},
            None,
            {"logStreams": []},
        ),
        (
            lambda it: it.log_tail("demo", "a/b c", 9),
            "GET",
            "/demo/logstreams/a%2Fb%20c",
            {"limit": "9", "startFromHead": "false"},
            None,
            {"events": []},
        ),
    ],
)
def test_each_operation_is_asked_as_the_api_describes_it(
    call: Callable[[ParallelClusterApi], Any],
    method: str,
    path: str,
    query: Json,
    body: Json | None,
    answer: Json,
) -> None:
    sent = Recorded((202 if method != "GET" else 200, answer))
    call(api(sent))
    assert sent.asked == [(method, f"/prod/v3/clusters{path}", {"region": "us-east-1", **query})]
    assert json.loads(sent.requests[0].data or b"null") == body


def test_pages_are_followed_to_the_last() -> None:
    first = {"clusters": [SUMMARY], "nextToken": "more"}
    sent = Recorded((200, first), (200, {"clusters": [{**SUMMARY, "clusterName": "other"}]}))
    assert [one.cluster_name for one in api(sent).clusters()] == ["demo", "other"]
    assert [query.get("nextToken") for _, _, query in sent.asked] == [None, "more"]


def test_events_of_the_stack_are_read_with_what_is_null() -> None:
    event = {
        "eventId": "1",
        "stackId": "arn",
        "stackName": "demo",
        "resourceStatus": "CREATE_FAILED",
        "resourceStatusReason": None,
        "timestamp": "2026-11-24T00:00:00.000Z",
    }
    (read,) = api(Recorded((200, {"events": [event]}))).stack_events("demo")
    assert (read.resource_status, read.resource_status_reason) == ("CREATE_FAILED", None)


def test_a_dry_run_that_succeeds_is_412_and_keeps_its_warnings() -> None:
    warning = {"level": "WARNING", "type": "KeyPairValidator", "message": "no key"}
    message = "Request would have succeeded, but DryRun flag is set."
    sent = Recorded((412, {"message": message, "validationMessages": [warning]}))
    (found,) = api(sent).dry_run("demo", "C").findings
    assert (found.level, found.message) == ("WARNING", "no key")
    assert sent.asked[0][2]["dryrun"] == "true"


def test_a_dry_run_of_an_update_is_asked_in_the_same_way() -> None:
    sent = Recorded((412, {"message": "would have succeeded", "changeSet": []}))
    assert api(sent).update_dry_run("demo", "C").findings == []
    assert sent.asked[0][:2] == ("PUT", "/prod/v3/clusters/demo")


def test_a_dry_run_that_is_taken_for_a_real_one_is_no_success() -> None:
    with pytest.raises(errors.RetryableError):
        api(Recorded((202, {"cluster": SUMMARY}))).dry_run("demo", "C")


def test_a_refusal_is_told_and_not_read_as_an_answer() -> None:
    with pytest.raises(Gone):
        api(Recorded((404, {"message": "no such cluster"}))).describe("demo")
    with pytest.raises(Invalid):
        api(Recorded((400, {"message": "Invalid cluster configuration."}))).create("demo", "C")


def test_an_answer_in_another_form_names_what_is_missing() -> None:
    with pytest.raises(errors.BackendRejected, match="clusterName, clusterStatus") as caught:
        api(Recorded((200, {"name": "demo"}))).describe("demo")
    assert "3.16.1" in caught.value.next_step


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens: it was taken and is given back."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.real
def test_no_answer_at_all_may_be_asked_again(nobody: str) -> None:
    credentials = Credentials("a", "b")
    client = ParallelClusterApi(nobody, "us-east-1", lambda: credentials, over_http(1.0))
    with pytest.raises(errors.RetryableError, match=f"API at {nobody} gave no answer"):
        client.describe("demo")
