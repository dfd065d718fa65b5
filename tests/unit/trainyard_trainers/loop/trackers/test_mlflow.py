"""MLflow is spoken to over HTTP, as its REST API is documented."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.mlflow_server import MlflowServer, serving

from trainyard_trainers.loop.trackers.mlflow import Mlflow
from trainyard_trainers.loop.trackers.tracker import Point, Refused, Unreachable

RUN = "run-01j0000000000000000000000a"


@pytest.fixture
def server() -> MlflowServer:
    return MlflowServer()


@pytest.fixture
def uri(server: MlflowServer) -> Iterator[str]:
    with serving(server) as address:
        yield address


def mlflow(uri: str, **environment: str) -> Mlflow:
    return Mlflow(RUN, {"MLFLOW_TRACKING_URI": uri, **environment})


@pytest.mark.real
def test_points_are_in_one_run_over_all_attempts(server: MlflowServer, uri: str) -> None:
    first = mlflow(uri)
    first.begin()
    first.add([Point(1, 10.0, {"train/loss": 2.0}), Point(2, 11.0, {"train/loss": 1.0})])
    first.end("KILLED")
    second = mlflow(uri)
    second.begin()
    ((_, run),) = server.runs.items()
    assert run["status"] == "RUNNING"
    second.add([Point(3, 12.0, {"train/loss": 0.5})])
    second.end("FINISHED")
    assert (run["run_name"], run["experiment_id"], run["status"]) == (RUN, "0", "FINISHED")
    assert [(found["step"], found["value"]) for found in run["metrics"]] == [
        (1, 2.0),
        (2, 1.0),
        (3, 0.5),
    ]
    assert run["metrics"][0] == {"key": "train/loss", "value": 2.0, "timestamp": 10_000, "step": 1}


@pytest.mark.real
def test_an_experiment_that_is_not_there_is_made(server: MlflowServer, uri: str) -> None:
    for _ in range(2):
        mlflow(uri, MLFLOW_EXPERIMENT_NAME="mine & yours").begin()
    assert server.experiments == {"Default": "0", "mine & yours": "1"}
    assert [run["experiment_id"] for run in server.runs.values()] == ["1"]
    mlflow(uri, MLFLOW_EXPERIMENT_ID="7").begin()
    assert sorted(run["experiment_id"] for run in server.runs.values()) == ["1", "7"]


@pytest.mark.real
def test_of_two_runs_that_make_an_experiment_at_once_both_are_in_it(
    server: MlflowServer, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        server.experiments[body["name"]] = "7"
        return 400, {"error_code": "RESOURCE_ALREADY_EXISTS"}

    monkeypatch.setattr(server, "experiments_create", late)
    mlflow(uri, MLFLOW_EXPERIMENT_NAME="new").begin()
    assert [run["experiment_id"] for run in server.runs.values()] == ["7"]


@pytest.mark.real
def test_very_many_values_go_in_parts(server: MlflowServer, uri: str) -> None:
    asked = mlflow(uri)
    asked.begin()
    asked.add([Point(step, 1.0, {"a": 1.0}) for step in range(2500)])
    assert server.calls.count("runs/log-batch") == 3


@pytest.mark.real
@pytest.mark.parametrize(
    ("environment", "user", "sent"),
    [
        ({"MLFLOW_TRACKING_TOKEN": "abc"}, "", "Bearer abc"),
        ({"MLFLOW_TRACKING_USERNAME": "a", "MLFLOW_TRACKING_PASSWORD": "b"}, "", "a:b"),
        ({}, "a:b%40@", "a:b@"),
        ({}, "", None),
    ],
)
def test_who_asks_is_said_as_the_environment_has_it(
    server: MlflowServer, uri: str, environment: dict[str, str], user: str, sent: str | None
) -> None:
    mlflow(uri.replace("//", f"//{user}"), **environment).begin()
    if sent is not None and not sent.startswith("Bearer"):
        sent = "Basic " + base64.b64encode(sent.encode()).decode()
    assert server.authorization == sent


@pytest.mark.real
def test_a_server_in_trouble_is_asked_again_and_a_refusal_is_not(
    server: MlflowServer, uri: str
) -> None:
    asked = mlflow(uri)
    for status, error in ((503, Unreachable), (429, Unreachable), (401, Refused), (404, Refused)):
        server.broken = status
        with pytest.raises(error, match=f"experiments/get-by-name was answered with {status}"):
            asked.begin()


@pytest.mark.real
def test_credentials_are_not_sent_where_a_server_leads(server: MlflowServer, uri: str) -> None:
    other = MlflowServer()
    with serving(other) as elsewhere:
        server.broken, server.location = 302, f"{elsewhere}/api/2.0/mlflow/experiments/get-by-name"
        with pytest.raises(Refused, match="302"):
            mlflow(uri, MLFLOW_TRACKING_TOKEN="abc").begin()
    assert other.calls == []


@pytest.mark.real
def test_where_nobody_listens_it_is_not_reached() -> None:
    with serving(MlflowServer()) as address:
        pass
    with pytest.raises(Unreachable):
        mlflow(address).begin()


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "databricks", "arn:aws:x", "http://"])
def test_what_is_no_servers_address_is_refused_with_what_would_be_one(uri: str) -> None:
    with pytest.raises(Refused, match="must be the address of a tracking server, http://HOST"):
        mlflow(uri)


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """A server that is no MLflow: it says the same to everything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)


@pytest.mark.real
@pytest.mark.parametrize(
    "body",
    [
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\n\r\n{"experiment": 1}',
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\nzz",
    ],
)
def test_what_is_no_answer_of_mlflow_may_be_one_later(body: bytes) -> None:
    with answering(body) as address, pytest.raises(Unreachable, match="experiments/get-by-name"):
        mlflow(address).begin()


@pytest.mark.real
def test_a_token_that_ends_with_a_lines_end_is_sent_without_it(
    server: MlflowServer, uri: str
) -> None:
    mlflow(uri, MLFLOW_TRACKING_TOKEN="abc\n").begin()
    assert server.authorization == "Bearer abc"
    mlflow(uri, MLFLOW_TRACKING_USERNAME="a", MLFLOW_TRACKING_PASSWORD="b\n").begin()
    assert server.authorization == "Basic " + base64.b64encode(b"a:b").decode()


@pytest.mark.parametrize("uri", ["http://user:se/cret@host", "http://user:se[cret@host"])
def test_a_password_that_breaks_the_address_is_not_quoted(uri: str) -> None:
    with pytest.raises(Refused, match="%XX") as refused:
        mlflow(uri)
    assert "se" not in str(refused.value).split()
    assert "cret" not in str(refused.value)


@pytest.mark.real
def test_a_page_that_a_server_answers_with_is_one_line_of_the_log() -> None:
    page = b"HTTP/1.1 502 No\r\n\r\n<html>\n  step 9 loss 1\n</html>"
    with answering(page) as address, pytest.raises(Unreachable, match="502: <html> step 9"):
        mlflow(address).begin()
