"""The command and the SDK against a real HTTP server on loopback that checks signatures and can misbehave."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from rich.console import Console
from tests.support.waiting import eventually

from trainyard_cli import client as client_module
from trainyard_cli import live, main
from trainyard_cli.client import Client
from trainyard_cli.connection import Connection
from trainyard_cli.problems import ApiProblem, InvalidInput, Unreachable
from trainyard_cli.snapshot import Snapshot
from trainyard_local import control

RUN = "run-01jd0000000000000000000000"
T = "2026-11-20T20:00:00Z"
Answer = tuple[int, dict[str, Any]]


def a_run(status: str = "Running", **fields: Any) -> dict[str, Any]:
    attempt = {
        "number": 1,
        "generation": 1,
        "jobId": "7",
        "nodes": ["ip-127-0-0-2"],
        "startedAt": T,
        "resumedFrom": None,
        "outcome": None,
        "reason": "",
    }
    return {
        "id": RUN, "name": "mine [bold]", "status": status, "createdAt": T, "updatedAt": T, "clusterName": "mine-abc", "clusterDeleted": False,
        "attempts": [attempt], "attemptCount": 1, "incidents": [], "reason": "because", "problem": None, "export": None,
        "latest": {"runId": RUN, "attempt": 1, "step": 41, "loss": 0.25}, **fields,
    }  # fmt: skip


def an_event(number: int, message: str, kind: str = "fact") -> dict[str, Any]:
    return {
        "id": f"E{number}",
        "at": T,
        "kind": kind,
        "type": "X",
        "message": message,
        "attempt": 1,
        "data": {},
    }


SAMPLE = {"cpuPercent": 55.0, "memoryUsedBytes": 2**30, "memoryTotalBytes": 2**32}
NODE = {
    "instanceId": "i-1", "group": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "status": "Running", "name": "ip-127-0-0-2",
    "agent": "linked", "scheduler": "idle", "sample": SAMPLE,
}  # fmt: skip
CLUSTER = {"name": "mine-abc", "status": "Ready", "createdAt": T, "spec": {"backend": "hyperpod", "instanceGroups": [{"name": "w", "count": 2, "instanceType": "ml.c5.xlarge"}]}}  # fmt: skip


class FakeApi:
    """Answers by `METHOD /path`; an answer may be a list that is used up one by one (the last stays), or a function of the query."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[dict[str, Any]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet; two would wait for each other for 40 ms

            def log_message(self, *_: object) -> None: ...

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                url = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                fake.requests.append(
                    {
                        "method": self.command,
                        "path": url.path,
                        "query": query,
                        "headers": dict(self.headers),
                        "body": body,
                    }
                )
                status, document = fake.find(
                    f"{self.command} {url.path.removeprefix('/stage')}", query
                )
                if url.path.startswith("/stage") and not fake.signed(
                    self.command, self.path, self.headers, body
                ):
                    status, document = 403, {"message": "Forbidden"}
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.send_header("retry-after", "0")
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def find(self, key: str, query: dict[str, str]) -> Answer:
        found = self.answers.get(
            key,
            (
                404,
                {
                    "title": "No such run",
                    "code": "run-not-found",
                    "detail": key,
                    "nextStep": "trainyard run ls",
                },
            ),
        )
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return found(query) if callable(found) else found

    def signed(self, method: str, path: str, headers: Any, body: bytes) -> bool:
        """Recompute the signature from what arrived."""
        given = headers.get("authorization", "")
        names = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        request = AWSRequest(
            method,
            self.endpoint + path,
            data=body,
            headers={name: headers[name] for name in names if name in headers},
        )
        request.context["timestamp"] = headers.get("x-amz-date")
        signer = SigV4Auth(Credentials("AKIDLOCAL", "secret"), "execute-api", "us-east-1")
        signature = signer.signature(
            signer.string_to_sign(request, signer.canonical_request(request)), request
        )
        return bool(given) and given.endswith(f"Signature={signature}")

    def calls(self, key: str) -> list[dict[str, Any]]:
        return [
            request
            for request in self.requests
            if f"{request['method']} {request['path'].removeprefix('/stage')}" == key
        ]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    fake = FakeApi()
    local = {
        "endpoint": fake.endpoint, "apiUrl": f"{fake.endpoint}/stage", "region": "us-east-1", "accessKeyId": "AKIDLOCAL", "secretAccessKey": "secret",
    }  # fmt: skip
    (tmp_path / "local.json").write_text(json.dumps(local))
    monkeypatch.setenv("TRAINYARD_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("TRAINYARD_API_URL", raising=False)
    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)
    monkeypatch.setattr("trainyard_cli.snapshot.SLOW_SECONDS", 0.0)
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


@pytest.fixture
def trainyard(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main.run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def spec(tmp_path: Path) -> str:
    (tmp_path / "spec.yaml").write_text("name: mine\ncluster: {name: shared}\n")
    return str(tmp_path / "spec.yaml")


def serve_a_whole_run(api: FakeApi, last: str = "Succeeded") -> None:
    events = [an_event(number, f"message {number}") for number in range(3)]
    api.answers |= {
        f"GET /v1/runs/{RUN}": [
            (200, a_run("Provisioning", attempts=[], latest=None)),
            (200, a_run()),
            (200, a_run(last, clusterDeleted=True)),
        ],
        f"GET /v1/runs/{RUN}/events": [(200, {"events": events[:2]}), (200, {"events": events})],
        f"GET /v1/runs/{RUN}/checkpoints": (
            200,
            {
                "checkpoints": [
                    {"step": 40, "attempt": 1, "status": "whole", "bytes": 99, "committedAt": T}
                ]
            },
        ),
        "GET /v1/clusters/mine-abc": (200, CLUSTER),
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [NODE]}),
    }


def test_a_call_is_signed_and_the_signature_covers_query_and_verb(api: FakeApi) -> None:
    api.answers |= {
        "GET /v1/runs": (200, {"runs": [a_run()]}),
        f"POST /v1/runs/{RUN}:cancel": (202, a_run("Cancelled")),
    }
    client = Client.connect()
    assert client.runs(status="Running", at_most=5)[0]["id"] == RUN
    assert client.cancel_run(RUN)["status"] == "Cancelled"


def test_an_unsigned_or_wrongly_signed_call_is_refused_with_the_next_step(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    local = json.loads((tmp_path / "local.json").read_text())
    (tmp_path / "local.json").write_text(json.dumps({**local, "secretAccessKey": "other"}))
    code, _, err = trainyard("run", "ls")
    assert code == 7
    assert "Forbidden" in err
    assert "Next: Check the AWS credentials" in err


def test_a_throttled_submit_is_repeated_with_the_same_key_and_makes_one_run(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    api.answers["POST /v1/runs"] = [(503, {}), (429, {}), (202, a_run("Pending"))]
    code, out, err = trainyard("run", "submit", spec)
    assert (code, out.strip()) == (0, RUN)
    assert f"trainyard run watch {RUN}" in err
    keys = {request["headers"]["idempotency-key"] for request in api.calls("POST /v1/runs")}
    assert (len(api.calls("POST /v1/runs")), len(keys)) == (3, 1)


def test_a_node_is_not_replaced_twice_because_an_answer_was_lost(api: FakeApi) -> None:
    api.answers["POST /v1/clusters/c/nodes/i-1:replace"] = (500, {"title": "Internal"})
    with pytest.raises(ApiProblem):
        Client.connect().replace_node("c", "i-1")
    assert len(api.calls("POST /v1/clusters/c/nodes/i-1:replace")) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, 6),
        (401, 7),
        (403, 7),
        (404, 3),
        (405, 3),
        (409, 4),
        (413, 6),
        (415, 6),
        (422, 6),
        (500, 1),
    ],
)
def test_a_problem_is_told_with_its_fields_and_the_next_step(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str, status: int, code: int
) -> None:
    errors = [{"field": "job.nodes", "message": "must be [at most] 2"}]
    api.answers["POST /v1/runs"] = (
        status,
        {"title": "Bad", "code": "x", "detail": "d", "nextStep": "Correct it", "errors": errors},
    )
    got, out, err = trainyard("run", "submit", spec)
    assert (got, out) == (code, "")
    assert "job.nodes  must be [at most] 2" in err
    assert "Next: Correct it" in err
    got, out, err = trainyard("run", "submit", spec, "--json")
    assert (got, err) == (code, "")
    assert json.loads(out)["error"]["errors"] == errors


def test_no_server_is_told_as_such(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module.time, "sleep", lambda _: None)
    monkeypatch.delenv("TRAINYARD_API_URL", raising=False)
    code, _, err = trainyard("--state-dir", str(tmp_path), "run", "ls")
    assert (code, "trainyard local up" in err) == (5, True)
    local = {
        "endpoint": "http://127.0.0.1:1",
        "apiUrl": "http://127.0.0.1:1/x",
        "region": "us-east-1",
        "accessKeyId": "a",
        "secretAccessKey": "b",
    }
    (tmp_path / "local.json").write_text(json.dumps(local))
    code, _, err = trainyard("run", "ls", "--state-dir", str(tmp_path))
    assert (code, "trainyard local status" in err) == (5, True)


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("foo", "does not begin with https://"),
        ("ftp://host/x", "does not begin with https://"),
        ("localhost:4780", "does not begin with https://"),
        ("https://", "names no host"),
        ("https://host:port", "is not a URL"),
        ("https://host/\x01", "is not a URL"),
        ("https://user:secret@host", "more than scheme, host and path"),
        ("https://host/?stage=a", "more than scheme, host and path"),
    ],
)
def test_an_endpoint_that_is_no_url_is_told_before_anything_else(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str,
    words: str,
) -> None:
    code, _, err = trainyard("run", "ls", "--endpoint", endpoint)
    assert (code, words in err, "Next: Give the stack's ApiUrl" in err) == (6, True, True), err
    monkeypatch.setenv("TRAINYARD_API_URL", endpoint)
    assert trainyard("cluster", "ls")[0] == 6
    assert api.requests == []


@pytest.mark.parametrize(
    "answer", [(404, {"message": "Not Found"}), (200, ["a page of something else"]), (302, {})]
)
def test_an_address_that_is_not_the_apis_is_told_apart_from_what_is_not_found(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], answer: Any
) -> None:
    api.answers["GET /v1/runs"] = answer
    code, _, err = trainyard("run", "ls")
    assert (code, "This is not Trainyard's API" in err, f"HTTP status {answer[0]}" in err) == (
        5,
        True,
        True,
    ), err


def test_missing_and_unusable_credentials_are_a_refusal_with_what_to_do(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "none",
        "AWS_SHARED_CREDENTIALS_FILE": "none",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / value) if value == "none" else value)
    elsewhere = (
        "run",
        "ls",
        "--state-dir",
        str(tmp_path),
        "--endpoint",
        "https://abc.execute-api.eu-west-1.amazonaws.com",
    )
    code, _, err = trainyard(*elsewhere)
    assert (code, "No AWS credentials" in err, "aws configure sso" in err) == (7, True, True), err
    code, _, err = trainyard("first-light", "--network-stack", "net", *elsewhere[2:])
    assert (code, "No AWS credentials" in err, "aws configure sso" in err) == (7, True, True), err
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    code, _, err = trainyard(*elsewhere)
    assert (code, "nobody" in err, "Check AWS_PROFILE" in err) == (7, True, True), err


@pytest.mark.parametrize("content", ["[]", "{}", "not json", '{"apiUrl": null}'])
def test_a_damaged_file_of_the_local_cloud_is_told_with_the_way_out(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, content: str
) -> None:
    (tmp_path / "local.json").write_text(content)
    for command in (("run", "ls"), ("fault", "kill-node", "c")):
        code, _, err = trainyard(*command, "--state-dir", str(tmp_path))
        assert (code, "trainyard local down" in err) == (5, True), err


def test_the_local_cloud_is_reached_without_the_proxy_of_the_environment(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.answers["GET /v1/runs"] = (200, {"runs": []})
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert Client.connect().runs() == []


@pytest.mark.parametrize("key", ["", " k", "k\n", "ключ", "x" * 129])
def test_a_key_that_no_header_carries_is_refused_before_anything_is_sent(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str, key: str
) -> None:
    code, _, err = trainyard("run", "submit", spec, "--idempotency-key", key)
    assert (code, "1 to 128 printable ASCII" in err, api.requests) == (6, True, [])


def test_the_local_keys_never_go_to_another_host(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDMINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    elsewhere = Connection.find("https://abc.execute-api.eu-west-1.amazonaws.com/")
    assert (elsewhere.local, elsewhere.region, elsewhere.credentials.access_key) == (
        None,
        "eu-west-1",
        "AKIDMINE",
    )
    with pytest.raises(InvalidInput, match="local cloud only"):
        Client(elsewhere).fault("kill-node", "c")


def test_every_page_is_read_and_no_more_than_asked(api: FakeApi) -> None:
    api.answers["GET /v1/runs"] = lambda query: (
        (200, {"runs": [a_run()] * 2, "nextToken": "t2"})
        if "nextToken" not in query
        else (200, {"runs": [a_run()] * 2})
    )
    assert len(Client.connect().runs()) == 4
    assert len(Client.connect().runs(at_most=2)) == 2


def test_an_id_stays_one_path_segment(api: FakeApi) -> None:
    with pytest.raises(ApiProblem):
        Client.connect().run("../clusters?x#y")
    assert api.requests[-1]["path"] == "/stage/v1/runs/..%2Fclusters%3Fx%23y"


def test_json_is_all_that_is_on_stdout_and_the_option_may_stand_anywhere(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    serve_a_whole_run(api)
    api.answers |= {
        "GET /v1/runs": (200, {"runs": [a_run()]}),
        "GET /v1/clusters": (200, {"clusters": [CLUSTER]}),
        f"GET /v1/runs/{RUN}/logs": (
            200,
            {"kind": "job", "attempt": 1, "source": "node", "text": "a\nb\n"},
        ),
        f"POST /v1/runs/{RUN}:export": (202, exported()),
        "POST /_trainyard/fault": (200, {"node": "i-1"}),
    }
    commands = ["run ls", f"run show {RUN}", f"run events {RUN}", f"run logs {RUN}", f"run watch {RUN}", f"run export {RUN}", "cluster ls",
                "cluster show mine-abc", "node ls mine-abc", "fault kill-node mine-abc"]  # fmt: skip
    for command in commands:
        for arguments in (["--json", *command.split()], [*command.split(), "--json"]):
            code, out, err = trainyard(*arguments)
            assert (code, err, bool(json.loads(out))) == (0, "", True), command


def exported(status: str = "Succeeded", **export: Any) -> dict[str, Any]:
    found = {
        "id": "export-2",
        "state": "verified",
        "final": False,
        "objects": 3,
        "bytes": 2048,
        "reason": "",
        "leftBehind": "",
        **export,
    }
    return a_run(status, export=found)


def test_an_export_is_waited_for_and_its_end_is_the_exit_status(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    def ends(*answers: dict[str, Any]) -> tuple[int, str, str]:
        old = exported("Running", id="export-1")
        api.answers[f"POST /v1/runs/{RUN}:export"] = (202, old)
        api.answers[f"GET /v1/runs/{RUN}"] = [(200, found) for found in (old, old, *answers)]
        return trainyard("run", "export", RUN)

    code, out, _ = ends(exported("Running", state="running"), exported("Running"))
    assert (code, "Exported and verified: 3 objects, 2.0 KiB" in out) == (0, True)
    code, out, err = ends(exported("Running", state="failed", reason="the disk is full"))
    assert (code, out, "The export failed: the disk is full" in err, "Next:" in err) == (
        1,
        "",
        True,
        True,
    )
    code, _, _ = ends(
        exported("Running", state="failed", final=True),
        exported("Succeeded", id="export-3", final=True),
    )
    assert code == 0
    code, _, err = ends(exported("Running", leftBehind="2 files of the program's own"))
    assert (code, "not exported: 2 files" in err) == (0, True)
    code, _, err = ends(a_run("Failed"))
    assert (code, "the run is Failed: because" in err) == (1, True)


def test_an_export_can_be_asked_for_without_waiting(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"POST /v1/runs/{RUN}:export": (202, a_run("Running")),
    }
    code, out, _ = trainyard("run", "export", RUN, "--no-wait")
    assert (code, out.startswith("Exporting")) == (0, True)


def test_what_surprises_at_the_end_is_said_at_submission_and_why_a_cluster_stays_is_shown(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text("name: x")
    api.answers["POST /v1/runs"] = (
        202,
        a_run("Pending", warnings=["job: results belong into TRAINYARD_OUTPUT_DIR"]),
    )
    code, out, err = trainyard("run", "submit", str(tmp_path / "run.yaml"))
    assert (code, out.strip(), "warning job: results belong" in err) == (0, RUN, True)
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Succeeded", teardownRefused="No result was found.")),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    assert "No result was found." in trainyard("run", "show", RUN)[1]


def test_tables_show_what_users_wrote_as_they_wrote_it(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    serve_a_whole_run(api)
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run()]})
    _, out, _ = trainyard("run", "ls")
    assert "mine [bold]" in out
    _, out, _ = trainyard("node", "ls", "mine-abc")
    assert "ip-127-0-0-2" in out
    assert "55%" in out
    assert "1.0 GiB / 4.0 GiB" in out
    _, out, _ = trainyard("run", "show", RUN)
    assert "Checkpoints" in out


def test_pruned_checkpoints_are_counted_and_not_listed(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    found = [
        {
            "step": step,
            "attempt": 1,
            "status": "whole" if step > 30 else "pruned",
            "bytes": 99,
            "committedAt": T,
        }
        for step in (50, 40, 30, 20)
    ]
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": found}),
    }
    _, out, _ = trainyard("run", "show", RUN)
    shown = out.partition("Checkpoints")[2].splitlines()
    assert shown[0] == " (2 older pruned)"
    assert [line.split()[:3] for line in shown[2:]] == [["50", "1", "whole"], ["40", "1", "whole"]]
    assert "2 checkpoints, newest at step 50" in live.training_line(
        Snapshot(a_run(), checkpoints=found)
    )


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_what_people_copy_is_never_cut_or_wrapped(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    node = {**NODE, "instanceId": "i-0123456789abcdef0", "name": "ip-127-30-24-10"}
    api.answers |= {
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [node]}),
        "GET /v1/runs": (
            200,
            {
                "runs": [
                    a_run(
                        reason="a reason that is longer than the terminal is wide, which may well happen"
                    )
                ]
            },
        ),
    }
    monkeypatch.setattr("trainyard_cli.output.out.width", columns)
    _, out, _ = trainyard("node", "ls", "mine-abc")
    row = next(line for line in out.splitlines() if "ip-127-30-24-10" in line)
    assert row.split()[:5] == [
        "ip-127-30-24-10",
        "i-0123456789abcdef0",
        "workers",
        "worker",
        "ml.c5.xlarge",
    ]
    _, out, _ = trainyard("run", "ls")
    assert f"{RUN}  mine [bold]  Running" in out


def test_who_asks_for_a_job_log_that_says_nothing_is_told_of_the_other_one(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers[f"GET /v1/runs/{RUN}/logs"] = (
        200,
        {"kind": "job", "attempt": 1, "source": "none", "text": ""},
    )
    _, _, err = trainyard("run", "logs", RUN)
    assert f"run logs --kind lifecycle {RUN}" in err
    _, _, err = trainyard("run", "logs", RUN, "--kind", "lifecycle")
    assert "Nothing is in the lifecycle log, or there is none." in err


@pytest.mark.parametrize("columns", [60, 10_000])
def test_the_reason_of_a_failed_run_is_shown_whole_beside_its_name(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    problem = {
        "code": "lifecycle-failed",
        "title": "A script failed",
        "detail": f"{words}\nERROR: the reason",
        "nextStep": "Mend it.",
    }
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Failed", problem=problem)),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
    }
    monkeypatch.setattr("trainyard_cli.output.out.width", columns)
    _, out, _ = trainyard("run", "show", RUN)
    told = " ".join(out.split())
    assert f"problem A script failed: {words} ERROR: the reason next step Mend it." in told
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_a_node_is_replaced_and_rebooted_by_either_of_its_names(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers |= {
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [NODE]}),
        "POST /v1/clusters/mine-abc/nodes/i-1:replace": (
            200,
            {"successful": ["i-1"], "failed": {}},
        ),
        "POST /v1/clusters/mine-abc/nodes/i-1:reboot": (200, {"successful": ["i-1"], "failed": {}}),
    }
    for arguments in (
        ("replace", "mine-abc", "ip-127-0-0-2"),
        ("replace", "mine-abc", "i-1"),
        ("reboot", "mine-abc", "ip-127-0-0-2"),
    ):
        code, out, _ = trainyard("node", *arguments)
        assert (code, "i-1" in out) == (0, True)


def test_the_other_kind_of_spec_is_refused_with_the_command_for_it(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text("name: mine\ninstanceGroups: []\n")
    (tmp_path / "run.yaml").write_text("name: mine\njob: {nodes: 2}\n")
    code, _, err = trainyard("run", "submit", str(tmp_path / "cluster.yaml"))
    assert (code, "Next: trainyard cluster create" in err) == (6, True)
    code, _, err = trainyard("cluster", "create", str(tmp_path / "run.yaml"))
    assert (code, "Next: trainyard run submit" in err) == (6, True)
    assert api.requests == []


@pytest.mark.parametrize(("status", "code"), [("Succeeded", 0), ("Failed", 1), ("Cancelled", 1)])
def test_watching_tells_each_line_once_and_ends_as_the_run_does(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str, status: str, code: int
) -> None:
    serve_a_whole_run(api, status)
    api.answers["POST /v1/runs"] = (202, a_run("Pending"))
    got, out, _ = trainyard("run", "submit", spec, "--watch")
    assert got == code
    assert [out.count(f"message {number}") for number in range(3)] == [1, 1, 1]
    assert "attempt 1, step 41, loss 0.25000, 1 checkpoints, newest at step 40" in out
    assert "agent linked, Slurm idle, CPU 55%, memory 1.0 GiB of 4.0 GiB" in out
    assert f"run {RUN} {status}: because" in out


def test_on_a_terminal_the_picture_has_run_nodes_and_timeline(api: FakeApi) -> None:
    serve_a_whole_run(api)
    seen: list[str] = []
    console = Console(file=io.StringIO(), force_terminal=True, width=140, height=50, _environ={})
    run = live.follow(
        Client.connect(),
        RUN,
        console,
        on_update=lambda snapshot: seen.append(snapshot.run["status"]),
    )
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (run["status"], seen) == ("Succeeded", ["Provisioning", "Running", "Succeeded"])
    for part in ("Timeline", "message 2", "ip-127-0-0-2", "step 41", "mine [bold]", "55%"):
        assert part in text


def test_a_checkpoint_shows_progress_between_two_samples() -> None:
    checkpoints = [
        {"step": 95, "attempt": 1, "status": "whole"},
        {"step": 500, "attempt": 0, "status": "whole"},
    ]
    line = live.training_line(Snapshot(a_run(), checkpoints=checkpoints))
    assert line == "attempt 1, step 95, loss 0.25000 at step 41, 2 checkpoints, newest at step 95"


def test_watching_outlives_an_api_that_is_away_for_a_moment(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_a_whole_run(api)
    client = Client.connect()
    real, failures = client.run, iter([True, True])

    def sometimes(run_id: str) -> dict[str, Any]:
        if next(failures, False):
            raise Unreachable("The API cannot be reached", "connection refused")
        return real(run_id)

    monkeypatch.setattr(client, "run", sometimes)
    console = Console(file=io.StringIO(), width=200)
    assert live.follow(client, RUN, console)["status"] == "Succeeded"
    assert console.file.getvalue().count("trying again") == 1  # type: ignore[attr-defined]


def test_ctrl_c_detaches_says_how_to_come_back_and_cancels_nothing(
    api: FakeApi, tmp_path: Path
) -> None:
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run()),
        f"GET /v1/runs/{RUN}/events": (200, {"events": [an_event(1, "message 1")]}),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
        "GET /v1/clusters/mine-abc": (200, CLUSTER),
        "GET /v1/clusters/mine-abc/nodes": (200, {"nodes": [NODE]}),
    }
    command = [sys.executable, "-m", "trainyard_cli.main", "run", "watch", RUN]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TRAINYARD_STATE_DIR": str(tmp_path)},
    )
    eventually("it asks again", lambda: len(api.calls(f"GET /v1/runs/{RUN}")) >= 2, 30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert f"Detached; run {RUN} goes on. Come back with: trainyard run watch {RUN}" in err
    assert {request["method"] for request in api.requests} == {"GET"}


def test_a_dry_run_shows_the_plan_and_asks_for_nothing_else(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], spec: str
) -> None:
    plan = {"operation": "CreateCluster", "request": {"ClusterName": "mine"}, "files": {"on_create.sh": 2048}, "batchScript": "#!/bin/bash [x]",
            "hourlyUsd": 1.5, "warnings": ["no spare"]}  # fmt: skip
    api.answers["POST /v1/runs"] = (200, plan)
    code, out, _ = trainyard("run", "submit", spec, "--dryrun")
    assert code == 0
    for part in (
        "CreateCluster",
        "1.50 USD an hour",
        "#!/bin/bash [x]",
        "no spare",
        "1 files, 2.0 KiB",
    ):
        assert part in out
    assert [request["query"] for request in api.requests] == [{"dryrun": "true"}]


def test_faults_of_links_take_their_numbers_and_where_nodes_have_no_link_the_cloud_says_so(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers["POST /_trainyard/fault"] = (200, {"node": "i-1"})
    for words, given in (
        (["cut-link", "--seconds", "20"], {"seconds": 20.0}),
        (["lose-packets"], {"percent": 5}),
        (["slow-link", "--milliseconds", "50"], {"milliseconds": 50, "percent": 5}),
    ):
        assert trainyard("fault", words[0], "mine-abc", "--node", "i-1", *words[1:])[0] == 0
        assert json.loads(api.requests[-1]["body"]) == {
            "kind": words[0],
            "cluster": "mine-abc",
            "node": "i-1",
            **given,
        }
    api.answers["POST /_trainyard/fault"] = (
        400,
        {"code": "invalid-request", "message": "start it with: --nodes machines"},
    )
    code, _, err = trainyard("fault", "cut-peers", "mine-abc")
    assert (code, "--nodes machines" in err) == (6, True)


def test_a_fault_goes_to_the_local_cloud(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers["POST /_trainyard/fault"] = (200, {"node": "i-1"})
    code, out, _ = trainyard("fault", "kill-process", "mine-abc", "--node", "i-1", "--run", RUN)
    assert (code, "i-1" in out) == (0, True)
    assert json.loads(api.requests[-1]["body"]) == {
        "kind": "kill-process",
        "cluster": "mine-abc",
        "node": "i-1",
        "run": RUN,
    }


def test_a_node_that_cannot_be_rebooted_gives_awss_reason(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    api.answers["POST /v1/clusters/c/nodes/i-1:reboot"] = (
        202,
        {"successful": [], "failed": {"i-1": "InvalidInstanceStatus"}},
    )
    code, _, err = trainyard("node", "reboot", "c", "i-1")
    assert (code, "InvalidInstanceStatus" in err) == (1, True)


def test_waiting_for_a_cluster_ends_with_it(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    spec: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainyard_cli.cluster_commands.POLL_SECONDS", 0.01)
    api.answers |= {
        "POST /v1/clusters": (202, {**CLUSTER, "status": "Pending"}),
        "GET /v1/clusters/mine-abc": [
            (200, {**CLUSTER, "status": "Creating"}),
            (200, {**CLUSTER, "status": "Failed"}),
        ],
        "DELETE /v1/clusters/gone": (202, {**CLUSTER, "name": "gone", "status": "Deleting"}),
    }
    assert trainyard("cluster", "create", spec, "--wait")[0] == 1
    code, out, _ = trainyard("cluster", "delete", "gone", "--wait", "--json")
    assert (code, json.loads(out)["status"]) == (0, "Deleted")


#: A few hundred bytes that written out are nine to the tenth.
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [("a: [1", "is not YAML"), ("", "empty"), ("- 1", "no mapping"), (None, "cannot be read"), ("[" * 5000, "is not YAML"),
     ("name: 2026-11-20", "JSON does not know"), ("job: {nodes: 1}\nname: a\njob: {nodes: 2}\n", "line 3"), ("a: &b [*b]", "JSON does not know"),
     ("name: 2026-02-30", "is not YAML"), ("name: " + "9" * 5000, "is not YAML"), (ALIASES, "is too large")],
)  # fmt: skip
def test_a_spec_that_cannot_be_read_is_told_before_anything_is_sent(
    api: FakeApi,
    trainyard: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    content: str | None,
    words: str,
) -> None:
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_text(content)
    code, _, err = trainyard("run", "submit", str(path))
    assert (code, words in err, api.requests) == (6, True, [])


def test_wrong_usage_is_exit_code_2(trainyard: Callable[..., tuple[int, str, str]]) -> None:
    assert trainyard("run", "ls", "--nope")[0] == 2
    assert trainyard("nope")[0] == 2


def test_the_log_is_followed_without_saying_a_line_twice(api: FakeApi) -> None:
    logs = [
        {"kind": "job", "attempt": n, "source": "node", "text": text}
        for n, text in ((1, "a\nb"), (1, "a\nb\nc"), (2, "a"))
    ]
    api.answers |= {
        f"GET /v1/runs/{RUN}": [(200, a_run()), (200, a_run()), (200, a_run("Succeeded"))],
        f"GET /v1/runs/{RUN}/logs": [(200, log) for log in logs],
    }
    lines: list[str] = []
    live.follow_log(Client.connect(), RUN, lines.append, lines=100, kind="job", attempt=None)
    assert lines == ["a", "b", "c", "a"]


def test_options_are_hoisted_up_to_the_double_dash() -> None:
    assert main.hoist_options(["run", "ls", "--json", "--state-dir", "x", "--", "--json"]) == [
        "--json",
        "--state-dir",
        "x",
        "run",
        "ls",
        "--",
        "--json",
    ]


class FakeControl:
    """Stands for the local cloud's control module."""

    ControlError, InTheWay, Unusable = control.ControlError, control.InTheWay, control.Unusable

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.error: Exception | None = None
        self.running = self.killed = False

    def up(self, *arguments: Any, nodes: str) -> dict[str, Any]:
        if self.error:
            raise self.error
        self.started.append((*arguments, nodes))
        return {"apiUrl": "http://127.0.0.1:1/x", "endpoint": "http://127.0.0.1:1"}

    def down(self, _: Path) -> dict[str, Any]:
        return {"stopped": True, "graceful": True, "killed": 1}

    def status(self, _: Path) -> dict[str, Any]:
        return {
            "running": self.running,
            "local": None,
            "processes": [],
            "cloud": None,
            "killed": self.killed,
        }


def test_the_local_cloud_starts_with_frequent_samples_and_tells_its_own_errors(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, template = FakeControl(), tmp_path / "template.yaml"
    template.write_text("Resources: {}")
    monkeypatch.setattr("trainyard_cli.local_commands._control", lambda: fake)
    arguments = (
        "local",
        "up",
        "--port",
        "5",
        "--template",
        str(template),
        "--state-dir",
        str(tmp_path / "state"),
    )
    code, out, _ = trainyard(*arguments)
    assert (code, "http://127.0.0.1:1/x" in out) == (0, True)
    assert fake.started[0][:4] == (tmp_path / "state", 5, template, {"HeartbeatSeconds": "2"})
    assert fake.started[0][-1] == "processes"
    assert trainyard(*arguments, "--nodes", "machines")[0] == 0
    assert fake.started[-1][-1] == "machines"
    for error, expected in (
        (control.InTheWay, 4),
        (control.Unusable, 6),
        (control.ControlError, 1),
    ):
        fake.error = error("one runs already", "End it first.")
        code, _, err = trainyard(*arguments)
        assert (code, "one runs already" in err, "Next: End it first." in err) == (
            expected,
            True,
            True,
        )
    assert trainyard("local", "up", "--template", str(tmp_path / "none"))[0] == 6
    assert "1 process had to be killed" in trainyard("local", "down")[1]
    assert trainyard("local", "status")[0] == 5


def test_the_local_cloud_goes_down_under_active_runs_only_when_a_person_says_so(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeControl()
    fake.running = True
    monkeypatch.setattr("trainyard_cli.local_commands._control", lambda: fake)
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run(), a_run("Succeeded")]})
    code, out, err = trainyard("local", "down")
    assert (code, out) == (4, "")
    assert f"1 run is active: {RUN} (Running)" in err
    assert "--yes" in err
    assert trainyard("local", "down", "--yes")[0] == 0
    api.answers["GET /v1/runs"] = (200, {"runs": [a_run("Succeeded")]})
    assert trainyard("local", "down")[0] == 0


def test_a_killed_local_clouds_records_are_said_to_be_gone(
    trainyard: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, template = FakeControl(), tmp_path / "template.yaml"
    template.write_text("Resources: {}")
    fake.killed = True
    monkeypatch.setattr("trainyard_cli.local_commands._control", lambda: fake)
    for command in (["status"], ["down"], ["up", "--template", str(template)]):
        assert "are gone" in " ".join(trainyard("local", *command)[2].split()), command


def test_what_a_job_wrote_is_shown_and_never_obeyed(
    api: FakeApi, trainyard: Callable[..., tuple[int, str, str]]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b1A"
    problem = {"title": f"Failed {evil}", "detail": evil, "nextStep": evil, "code": "same-error"}
    api.answers |= {
        f"GET /v1/runs/{RUN}": (200, a_run("Failed", name=evil, reason=evil, problem=problem)),
        f"GET /v1/runs/{RUN}/events": (200, {"events": [an_event(1, evil)]}),
        f"GET /v1/runs/{RUN}/checkpoints": (200, {"checkpoints": []}),
        f"GET /v1/runs/{RUN}/logs": (
            200,
            {"kind": "job", "attempt": 1, "source": "node", "text": evil},
        ),
        "GET /v1/runs": (200, {"runs": [a_run(name=evil, reason=evil)]}),
        f"POST /v1/runs/{RUN}:cancel": (409, problem),
    }
    calls = [
        ("show", RUN),
        ("events", RUN),
        ("logs", RUN),
        ("ls",),
        ("watch", RUN),
        ("cancel", RUN),
    ]
    for call in [*calls, *[(*call, "--json") for call in calls]]:
        _, out, err = trainyard("run", *call)
        assert "owned" in out + err
        assert not set(out + err) & {"\x1b", "\x07", "\x9b"}, call
