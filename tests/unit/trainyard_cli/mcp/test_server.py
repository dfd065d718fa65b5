"""The protocol, line by line, with an API that answers as it is told."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

from trainyard_cli.mcp import server as server_module
from trainyard_cli.mcp.server import VERSIONS, Server
from trainyard_sdk.client import Client
from trainyard_sdk.connection import Connection
from trainyard_sdk.problems import Unreachable

LOCAL = {"endpoint": "http://127.0.0.1:1", "accessKeyId": "A", "secretAccessKey": "s"}


def client(answer: dict[str, Any]) -> Client:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    return Client(Connection(LOCAL["endpoint"], "us-east-1", dict(LOCAL)), transport=transport)


def a_server(answer: dict[str, Any] | None = None, *, acting: bool = False) -> Server:
    return Server(lambda: client(answer or {"runs": []}), "1.2.3", acting=acting)


def asked(server: Server, method: str, **params: Any) -> dict[str, Any]:
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    answer = server.answer(line)
    assert answer is not None
    found: dict[str, Any] = json.loads(answer)
    assert (found["jsonrpc"], found["id"]) == ("2.0", 7)
    return found


def called(server: Server, name: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    """Whether the tool failed, and its data."""
    result = asked(server, "tools/call", name=name, arguments=arguments)["result"]
    (content,) = result["content"]
    return result["isError"], json.loads(content["text"])["data"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_that_both_know_is_spoken(version: str) -> None:
    found = asked(a_server(), "initialize", protocolVersion=version)["result"]
    assert found["protocolVersion"] == version
    assert found["serverInfo"] == {"name": "trainyard", "version": "1.2.3"}
    assert "untrusted" in found["instructions"]


@pytest.mark.parametrize("version", ["2030-01-01", None, 5])
def test_for_another_version_the_newest_is_offered(version: object) -> None:
    found = asked(a_server(), "initialize", protocolVersion=version)["result"]
    assert found["protocolVersion"] == VERSIONS[0]


def test_a_notification_has_no_answer_and_a_ping_has_one() -> None:
    server = a_server()
    assert server.answer('{"jsonrpc":"2.0","method":"notifications/initialized"}') is None
    assert server.answer("\n") is None
    assert asked(server, "ping")["result"] == {}


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("{", -32700, "no JSON"),
        (b"\xff\n", -32700, "no JSON"),
        ("[" * 100_000, -32700, ""),
        ("[]", -32600, "jsonrpc"),
        ("7", -32600, "jsonrpc"),
        ('{"id":1,"method":"ping"}', -32600, "jsonrpc"),
        ('{"jsonrpc":"2.0","id":1,"method":5}', -32600, "method"),
        ('{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, "id"),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602, "params"),
        ('{"jsonrpc":"2.0","id":1,"method":"server/discover"}', -32601, "server/discover"),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602, "'rm'"),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602, "list_runs"),
        (
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["rm"]}}',
            -32602,
            "there is no tool",
        ),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":{}}}', -32602, "tool"),
        ("[" + "7," * 200 + "7]", -32600, "at most 100"),
        (
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"costs",'
            '"arguments":[]}}',
            -32602,
            "arguments",
        ),
    ],
)
def test_what_cannot_be_served_says_what_is_wrong(line: str | bytes, code: int, words: str) -> None:
    answer = a_server().answer(line)
    assert answer is not None
    error = json.loads(answer)["error"]
    assert error["code"] == code
    assert words in error["message"]


def test_a_batch_is_answered_as_one() -> None:
    ping = '{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    note = '{"jsonrpc":"2.0","method":"notifications/cancelled"}'
    answer = a_server().answer(f"[{ping % 1},{note},{ping % 2}]")
    assert [one["id"] for one in json.loads(answer or "")] == [1, 2]
    assert a_server().answer(f"[{note}]") is None


def test_lines_are_served_in_their_order_until_the_stream_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "LONGEST_LINE", 100)
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
    answers = io.BytesIO()
    a_server().serve(io.BytesIO(ping % 1 + b"x" * 1000 + b"\n" + ping % 2), answers)
    first, refused, last = map(json.loads, answers.getvalue().splitlines())
    assert (first["id"], last["id"]) == (1, 2)
    assert "at most 100 bytes" in refused["error"]["message"]


@pytest.mark.real
@pytest.mark.parametrize("sent", [b"", b'{"jsonrpc":"2.0","id":1,"meth', b"\n\n"])
def test_a_program_that_goes_away_ends_the_server_without_a_word_of_python(sent: bytes) -> None:
    """It closes both streams, perhaps in the middle of a line that it sent."""
    command = [sys.executable, "-m", "trainyard_cli.main", "mcp"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.close()
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        server.stdin.write(ping + sent)
        server.stdin.close()
        said = server.stderr.read()
    assert said == b""
    assert server.returncode == 0


def test_each_tool_says_what_it_takes() -> None:
    tools = asked(a_server(acting=True), "tools/list")["result"]["tools"]
    assert len({tool["name"] for tool in tools}) == len(tools) == 13
    for tool in tools:
        assert tool["description"].endswith(".")
        for name, parameter in tool["inputSchema"]["properties"].items():
            assert parameter["description"], f"{tool['name']}.{name}"


def test_without_permission_no_tool_acts() -> None:
    server = a_server()
    tools = asked(server, "tools/list")["result"]["tools"]
    assert {tool["annotations"]["readOnlyHint"] for tool in tools} == {True}
    failed, said = called(server, "cancel_run", run="latest", confirm="demo")
    assert failed
    assert "--allow-actions" in said["nextStep"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"atMost": 0}, "atMost"),
        ({"atMost": "5"}, "atMost"),
        ({"limit": 5}, "limit"),
        ({"since": "soon"}, "'soon' is no time"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_asked(
    arguments: dict[str, Any], words: str
) -> None:
    failed, said = called(a_server(), "list_runs", **arguments)
    assert failed
    assert words in said["detail"]


@pytest.mark.parametrize("text", ["\ud800", "a\udfff/b"])
def test_half_of_a_character_is_a_wrong_argument_and_no_defect(text: str) -> None:
    """JSON can spell one, and no address can."""
    for name, arguments in (
        ("show_run", {"run": text}),
        ("list_runs", {"label": ["team", text]}),
        ("plan_run", {"spec": {"name": {"a": [text]}}}),
        ("plan_run", {"spec": {text: 1}}),
    ):
        failed, said = called(a_server(), name, **arguments)
        assert failed
        assert "half of a character" in said["detail"]


def test_a_spec_nested_too_deeply_is_a_wrong_argument_and_no_defect() -> None:
    depth = 400
    spec = '{"a":' * depth + "1" + "}" * depth
    line = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan_run","arguments":'
    answer = a_server().answer(line + f'{{"spec":{spec}}}}}}}')
    assert answer is not None
    result = json.loads(answer)["result"]
    assert result["isError"]
    assert "nested" in result["content"][0]["text"]


def test_an_api_that_is_away_is_a_failure_of_the_tool() -> None:
    def away() -> Client:
        raise Unreachable("No Trainyard to talk to", "", "trainyard local up")

    failed, said = called(Server(away, "1", acting=False), "list_runs")
    assert failed
    assert said["nextStep"] == "trainyard local up"


def test_a_defect_ends_one_call_and_no_session(capsys: pytest.CaptureFixture[str]) -> None:
    server = a_server({"unknown": 1})
    error = asked(server, "tools/call", name="list_runs")["error"]
    assert error["code"] == -32603
    assert "KeyError" in capsys.readouterr().err
    assert asked(server, "ping")["result"] == {}


def test_an_answer_too_long_to_be_read_says_to_ask_for_less() -> None:
    failed, said = called(a_server({"runs": [{"reason": "x" * 200_000}]}), "list_runs")
    assert failed
    assert "fewer" in said["nextStep"]
