"""The console's server on a port of loopback, attacked as a page and as a program would do it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from tests.support.console_scene import RUN, Scene
from tests.support.fake_api import FakeApi

from trainyard_cli.console.server import Console
from trainyard_sdk.connection import Connection
from trainyard_sdk.problems import Unreachable

pytestmark = pytest.mark.real
KEY = "0a1b2c3d-0000-4000-8000-000000000001"
LOCAL = {
    "endpoint": "http://127.0.0.1:9",
    "apiUrl": "http://127.0.0.1:9",
    "region": "us-east-1",
    "accessKeyId": "AKIDLOCAL",
    "secretAccessKey": "secret",
}


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def server(scene: Scene) -> Iterator[Console]:
    connection = Connection(LOCAL["apiUrl"], "us-east-1", LOCAL)
    with serving(Console(connection, transport=scene.transport())) as found:
        yield found


class serving:
    """Serves until the end of the block."""

    def __init__(self, server: Console) -> None:
        self.server = server
        self.thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Console:
        self.thread.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def browser(server: Console) -> httpx.Client:
    """One that opened the link."""
    client = httpx.Client(base_url=server.ours.origin, trust_env=False)
    answer = client.get(server.link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return client


def raw(server: Console, text: str) -> tuple[int, bytes]:
    """Sent as it is, which no client would do."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as line:
        line.sendall(text.encode("latin-1"))
        answer = http.client.HTTPResponse(line)
        answer.begin()
        return answer.status, answer.read()


def cookie(server: Console) -> str:
    return f"{server.ours.cookie_name}={server.ours.cookie}"


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_never_see(server: Console) -> None:
    answer = httpx.get(server.link, trust_env=False)
    given = answer.headers["set-cookie"]
    assert given == f"{cookie(server)}; HttpOnly; SameSite=Strict; Path=/"
    assert server.ours.token not in given + answer.headers["location"]


def test_a_link_that_was_used_lets_nobody_in(server: Console) -> None:
    assert browser(server).get("/").status_code == 200
    again = httpx.get(server.link, trust_env=False)
    assert (again.status_code, again.headers.get("set-cookie")) == (403, None)
    assert "used" in again.json()["title"]


def test_a_wrong_token_lets_nobody_in_and_leaves_the_link_good(server: Console) -> None:
    wrong = httpx.get(f"{server.ours.origin}/?token=x", trust_env=False)
    assert (wrong.status_code, wrong.headers.get("set-cookie")) == (403, None)
    assert browser(server).get("/").status_code == 200


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/context.json", "/v1/runs", "/v1/x"])
def test_without_the_cookie_nothing_is_shown_and_nothing_signed(
    server: Console, scene: Scene, path: str
) -> None:
    answer = httpx.get(server.ours.origin + path, trust_env=False)
    assert (answer.status_code, scene.requests) == (401, [])


def test_the_browser_that_opened_the_link_reads_the_api_signed(
    server: Console, scene: Scene
) -> None:
    found = browser(server).get("/v1/runs?limit=5&label=a%3Db")
    assert next(run["id"] for run in found.json()["runs"]) == RUN
    (asked,) = scene.requests
    assert str(asked.url) == "http://127.0.0.1:9/v1/runs?limit=5&label=a%3Db"
    assert "Credential=AKIDLOCAL/" in asked.headers["authorization"]
    assert not {"cookie", "origin", "referer"} & set(asked.headers)


def test_the_signature_is_one_that_the_api_takes(api: FakeApi) -> None:
    api.answers |= {"POST /v1/runs": (202, {"id": RUN})}
    with serving(Console(Connection.find())) as server:
        origin = {"origin": server.ours.origin}
        sent = {**origin, "idempotency-key": KEY, "x-trainyard-console": "1"}
        answer = browser(server).post("/v1/runs?dryrun=true", json={"name": "a"}, headers=sent)
    assert (answer.status_code, answer.json()) == (202, {"id": RUN})
    (asked,) = api.calls("POST /v1/runs")
    assert json.loads(asked["body"]) == {"name": "a"}
    assert {name.lower(): value for name, value in asked["headers"].items()}[
        "idempotency-key"
    ] == KEY


def test_an_etag_goes_both_ways(server: Console) -> None:
    client = browser(server)
    etag = client.get(f"/v1/runs/{RUN}").headers["etag"]
    same = client.get(f"/v1/runs/{RUN}", headers={"if-none-match": etag})
    assert (same.status_code, same.content) == (304, b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_page_gets_nothing_even_with_the_cookie(
    server: Console, scene: Scene, headers: dict[str, str]
) -> None:
    answer = browser(server).get("/v1/runs", headers=headers)
    assert answer.status_code in (403, 421)
    assert scene.requests == []
    assert "access-control-allow-origin" not in answer.headers


def test_a_form_of_another_page_changes_nothing(server: Console, scene: Scene) -> None:
    client = browser(server)
    for headers in ({}, {"origin": "null"}, {"origin": "https://evil.example"}):
        assert client.post(f"/v1/runs/{RUN}:cancel", headers=headers).status_code == 403
    assert scene.requests == []


def test_a_change_without_our_header_or_of_another_kind_is_not_signed(
    server: Console, scene: Scene
) -> None:
    client, origin = browser(server), {"origin": server.ours.origin}
    ours = {**origin, "x-trainyard-console": "1", "idempotency-key": KEY}
    assert client.post(f"/v1/runs/{RUN}:cancel", headers=origin).status_code == 403
    assert client.delete("/v1/filesystems/data", headers=ours).status_code == 403
    assert client.put("/v1/clusters/demo-1", headers=ours).status_code == 405
    assert scene.requests == []


def test_a_change_that_is_sent_twice_is_made_once(server: Console, scene: Scene) -> None:
    path = f"/v1/runs/{RUN}:cancel"
    scene.answers[f"POST {path}"] = httpx.Response(202, json={"id": RUN})
    client = browser(server)
    ours = {"origin": server.ours.origin, "x-trainyard-console": "1", "idempotency-key": KEY}
    found = [client.post(path, headers=ours) for _ in range(2)]
    assert [(one.status_code, one.json()) for one in found] == [(202, {"id": RUN})] * 2
    assert client.post(f"/v1/runs/{RUN}:export", headers=ours).status_code == 409
    (asked,) = scene.requests
    assert asked.headers["idempotency-key"] == KEY


@pytest.mark.parametrize("value", ["\xe9", "a\r\n b"])
def test_a_header_that_cannot_be_signed_is_refused_with_its_name(
    server: Console, scene: Scene, value: str
) -> None:
    host = f"host: 127.0.0.1:{server.server_port}\r\ncookie: {cookie(server)}\r\n"
    found, body = raw(server, f"GET /v1/runs HTTP/1.1\r\n{host}if-none-match: {value}\r\n\r\n")
    assert (found, scene.requests) == (400, [])
    assert b"if-none-match" in body


def test_a_text_becomes_a_spec_for_our_own_page_alone(server: Console, scene: Scene) -> None:
    client, origin = browser(server), {"origin": server.ours.origin}
    ours = {**origin, "x-trainyard-console": "1"}
    found = client.post("/spec.json", content="job:\n  nodes: 2\n", headers=ours)
    assert (found.status_code, found.json()) == (200, {"spec": {"job": {"nodes": 2}}})
    wrong = client.post("/spec.json", content="a: [", headers=ours)
    assert (wrong.status_code, wrong.json()["title"]) == (422, "The spec is not YAML")
    assert "trainyard.yaml" in wrong.json()["detail"]
    assert client.post("/spec.json", content="a: 1", headers=origin).status_code == 403
    assert client.get("/spec.json").status_code == 404
    assert scene.requests == []


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET http://evil.example/v1/runs HTTP/1.1", 404),
        ("GET //evil.example/v1/runs HTTP/1.1", 404),
        ("GET /v1/../../etc/passwd HTTP/1.1", 400),
        ("GET /v1/%2e%2e/x HTTP/1.1", 400),
        ("GET /static/../server.py HTTP/1.1", 404),
        ("GET /static/%2e%2e/server.py HTTP/1.1", 404),
        ("OPTIONS /v1/runs HTTP/1.1", 403),
        ("CONNECT evil.example:443 HTTP/1.1", 403),
        ("PROPFIND /v1/runs HTTP/1.1", 501),
    ],
)
def test_tricks_with_the_first_line(server: Console, scene: Scene, line: str, status: int) -> None:
    host = f"host: 127.0.0.1:{server.server_port}\r\ncookie: {cookie(server)}\r\n"
    found, body = raw(server, f"{line}\r\n{host}\r\n")
    assert (found, scene.requests) == (status, [])
    assert b"<html" not in body.lower()


def test_two_hosts_are_none(server: Console, scene: Scene) -> None:
    ours = f"host: 127.0.0.1:{server.server_port}\r\n"
    head = f"{ours}host: evil.example\r\ncookie: {cookie(server)}\r\n"
    assert raw(server, f"GET /v1/runs HTTP/1.1\r\n{head}\r\n")[0] == 421
    assert scene.requests == []


@pytest.mark.parametrize(
    ("more", "status"),
    [("content-length: 99999999\r\n", 413), ("transfer-encoding: chunked\r\n", 411)],
)
def test_a_big_body_is_not_even_read(server: Console, scene: Scene, more: str, status: int) -> None:
    head = f"host: 127.0.0.1:{server.server_port}\r\norigin: {server.ours.origin}\r\n"
    asked = f"POST /v1/runs HTTP/1.1\r\n{head}cookie: {cookie(server)}\r\n{more}\r\n"
    assert raw(server, asked)[0] == status
    assert scene.requests == []


def test_every_answer_has_the_policy(server: Console) -> None:
    client = browser(server)
    for path in ("/", "/static/app.js", "/v1/runs", "/v1/nothing", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_what_the_api_answers_is_never_a_page(server: Console, scene: Scene) -> None:
    scene.answers["GET /v1/runs"] = httpx.Response(
        200, text="<script>1</script>", headers={"content-type": "text/html"}
    )
    assert browser(server).get("/v1/runs").headers["content-type"].startswith("text/plain")


def test_an_api_that_is_away_is_said_and_the_console_stays(server: Console, scene: Scene) -> None:
    def away(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    scene.answers["GET /v1/runs"] = away
    client = browser(server)
    answer = client.get("/v1/runs")
    assert (answer.status_code, answer.json()["title"]) == (502, "The API does not answer")
    assert client.get(f"/v1/runs/{RUN}").status_code == 200


def test_a_port_that_is_taken_is_a_clear_error(server: Console) -> None:
    with pytest.raises(Unreachable) as error:
        Console(server.connection, server.server_port)
    assert f"--port: 127.0.0.1:{server.server_port}: Address already in use" in error.value.detail


def test_it_listens_on_loopback_alone(server: Console) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
