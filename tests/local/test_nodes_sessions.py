"""Session Manager on the local cloud: its protocol on a real websocket, commands on real nodes."""

from __future__ import annotations

import json
import socket
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.support.node_cloud import NodeCloud
from tests.support.waiting import eventually
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from trainyard.aws.session_channel import SessionChannel
from trainyard.domain import errors
from trainyard_local.hyperpod.cluster import LocalCluster
from trainyard_local.sessions.frames import Frame, decode


@pytest.fixture(scope="module")
def cluster(nodes: NodeCloud) -> LocalCluster:
    return nodes.create("sessions", workers=1)


class Client:
    """A plain client of the data channel that a test can make misbehave.

    It acknowledges everything unless told otherwise.
    """

    def __init__(self, session: dict[str, Any], token: str | None = None) -> None:
        self.socket: ClientConnection = connect(session["StreamUrl"], compression=None)
        self.socket.send(json.dumps({
            "MessageSchemaVersion": "1.0", "RequestId": str(uuid.uuid4()),
            "TokenValue": token or session["TokenValue"], "ClientId": str(uuid.uuid4()),
            "ClientVersion": "1.2.650.0",
        }))  # fmt: skip
        self.seen: dict[int, Frame] = {}
        self.repeated: list[int] = []
        self.closed: dict[str, Any] | None = None
        self.acknowledged: list[int] = []
        self.sequence = 0

    def read(self, *, acknowledge: bool = True, seconds: float = 10) -> Frame:
        frame = decode(self.socket.recv(timeout=seconds))  # type: ignore[arg-type]
        if frame.message_type == "output_stream_data":
            if frame.sequence in self.seen:
                self.repeated.append(frame.sequence)
            self.seen[frame.sequence] = frame
            if acknowledge:
                self.acknowledge(frame)
        elif frame.message_type == "acknowledge":
            self.acknowledged.append(json.loads(frame.payload)["AcknowledgedMessageSequenceNumber"])
        elif frame.message_type == "channel_closed":
            self.closed = json.loads(frame.payload)
        return frame

    def acknowledge(self, frame: Frame) -> None:
        content = {
            "AcknowledgedMessageType": "output_stream_data",
            "AcknowledgedMessageId": str(frame.message_id),
            "AcknowledgedMessageSequenceNumber": frame.sequence, "IsSequentialMessage": True,
        }  # fmt: skip
        self.socket.send(Frame("acknowledge", 0, json.dumps(content).encode(), flags=3).encode())

    def shake_hands(self, status: int = 1, *, twice: bool = False) -> None:
        request = self.until_type(5)
        actions = [
            {
                "ActionType": action["ActionType"],
                "ActionStatus": status,
                "ActionResult": None,
                "Error": "",
            }
            for action in json.loads(request.payload)["RequestedClientActions"]
        ]
        content = {"ClientVersion": "1.2.650.0", "ProcessedClientActions": actions, "Errors": []}
        for _ in range(2 if twice else 1):
            self.put(6, json.dumps(content).encode(), self.sequence)
        self.sequence += 1

    def put(self, payload_type: int, payload: bytes, sequence: int) -> None:
        self.socket.send(Frame("input_stream_data", sequence, payload, payload_type).encode())

    def until_type(self, payload_type: int) -> Frame:
        while (frame := self.read()).payload_type != payload_type:
            pass
        return frame

    def until_closed(self) -> None:
        while self.closed is None:
            self.read()

    def text(self, payload_type: int) -> str:
        frames = (frame for _, frame in sorted(self.seen.items()))
        return b"".join(
            frame.payload for frame in frames if frame.payload_type == payload_type
        ).decode()


def start(
    nodes: NodeCloud,
    cluster: LocalCluster,
    command: str,
    *,
    separate: bool = True,
    node: Any = None,
) -> dict[str, Any]:
    """StartSession on the controller, after the account's three starts a second are free again."""
    request = {
        "Target": nodes.target(cluster, node or cluster.controller),
        "DocumentName": "AWS-StartNonInteractiveCommand",
        "Parameters": {"command": [command], "separateOutputStream": [str(separate).lower()]},
    }

    def attempt() -> Any:
        try:
            return nodes.ssm.start_session(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ThrottlingException":
                raise
            return None

    answer: dict[str, Any] = eventually("a session", attempt)
    return answer


def code_of(call: Any, **params: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**params)
    return str(caught.value.response["Error"]["Code"])


def test_the_control_planes_client_runs_a_command_on_the_controller(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    channel = SessionChannel(nodes.ssm)
    assert cluster.controller is not None
    target = nodes.target(cluster, cluster.controller)
    result = channel.run(
        lambda again: target,
        ["trainyard-agent", "status", "--run", "a b; $(x) 'y'"],
        timeout_seconds=20,
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "argv": ["status", "--run", "a b; $(x) 'y'"],
        "root": str(cluster.controller.root),
    }
    by_path = channel.run(
        lambda again: target, ["/opt/trainyard/bin/trainyard-agent", "nodes"], timeout_seconds=20
    )
    assert json.loads(by_path.stdout)["argv"] == ["nodes"]
    failed = channel.run(
        lambda again: target, ["bash", "-c", "echo out; echo err >&2; exit 3"], timeout_seconds=20
    )
    assert (failed.exit_code, failed.stdout, failed.stderr) == (3, "out\n", "err\n")
    big = channel.run(
        lambda again: target,
        ["bash", "-c", "head -c 300000 /dev/zero | tr '\\0' x"],
        timeout_seconds=20,
    )
    assert big.stdout == "x" * 300000


def test_the_control_planes_client_says_that_a_dead_node_is_unreachable(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    worker = nodes.workers(cluster)[0]
    target = nodes.target(cluster, worker)
    session = start(nodes, cluster, "sleep 60", node=worker)
    client = Client(session)
    client.shake_hands()
    client.until_type(7)
    nodes.fault("kill-node", cluster, node=worker.name)
    with pytest.raises(ConnectionClosed):
        client.until_closed()
    assert client.closed is None
    assert code_of(nodes.ssm.start_session, Target=target,
                   DocumentName="AWS-StartNonInteractiveCommand",
                   Parameters={"command": ["true"]}) in (
        "TargetNotConnected", "ThrottlingException",
    )  # fmt: skip

    def unreachable() -> bool:
        """A call that comes too soon after others is throttled instead."""
        try:
            SessionChannel(nodes.ssm).run(lambda again: target, ["true"], timeout_seconds=2)
        except errors.Throttled:
            return False
        except errors.NodeUnreachable:
            return True
        raise AssertionError("a dead node ran a command")

    eventually("the client says so", unreachable)
    nodes.sagemaker.batch_reboot_cluster_nodes(ClusterName="sessions", NodeIds=[worker.instance_id])
    eventually("back", lambda: worker.status == "Running" and worker.connected)


def test_output_comes_live_in_order_and_the_exit_code_last(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    client = Client(start(nodes, cluster, "bash -c 'echo one; sleep 0.2; echo two; exit 5'"))
    client.shake_hands()
    client.until_closed()
    assert client.text(1) == "one\ntwo\n"
    assert client.text(12) == "EXIT_CODE: 5"
    assert sorted(client.seen) == list(range(len(client.seen)))
    assert client.seen[max(client.seen)].payload_type == 12
    assert client.acknowledged == [0]
    assert client.closed is not None
    assert client.closed["Output"] == ""


def test_no_shell_reads_the_command(
    nodes: NodeCloud, cluster: LocalCluster, tmp_path: Path
) -> None:
    client = Client(start(nodes, cluster, f"echo $HOME && touch {tmp_path}/pwned; `id` 'a b'"))
    client.shake_hands()
    client.until_closed()
    assert client.text(1) == f"$HOME && touch {tmp_path}/pwned; `id` a b\n"
    assert list(tmp_path.iterdir()) == []


def test_without_separate_streams_there_is_no_exit_code_and_output_comes_at_the_end(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    client = Client(
        start(nodes, cluster, "bash -c 'echo out; echo err >&2; exit 4'", separate=False)
    )
    client.shake_hands()
    client.until_closed()
    assert sorted(client.text(1).split()) == ["err", "out"]
    assert client.text(12) == ""


def test_a_command_that_cannot_start_has_exit_code_1_and_says_why(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    client = Client(start(nodes, cluster, "no-such-program at all"))
    client.shake_hands()
    client.until_closed()
    assert client.text(12) == "EXIT_CODE: 1"
    assert client.text(11) == "", (
        "as the real agent: the words come after the code, with the end of the channel"
    )
    assert client.closed is not None
    assert "no-such-program" in client.closed["Output"]


def test_frames_without_acknowledgement_are_sent_again(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    client = Client(start(nodes, cluster, "echo hello"))
    client.read(acknowledge=False)
    assert client.read(acknowledge=False).sequence == 0
    client.shake_hands(twice=True)
    client.until_closed()
    assert client.repeated
    assert client.text(1) == "hello\n"
    assert client.acknowledged == [0, 0]


def test_input_is_taken_in_order_and_once(nodes: NodeCloud, cluster: LocalCluster) -> None:
    client = Client(start(nodes, cluster, "sleep 60"))
    # The interrupt overtakes the handshake response and must wait for it.
    # Its acknowledgement may come before the request.
    client.put(1, b"\x03", 1)
    client.shake_hands()
    client.until_closed()
    assert client.text(12).startswith("EXIT_CODE: ")
    assert sorted(set(client.acknowledged)) == [0, 1]


def test_a_broken_connection_can_be_resumed_with_a_new_token(
    nodes: NodeCloud, cluster: LocalCluster
) -> None:
    session = start(nodes, cluster, "bash -c 'echo before; read -t 0.5; echo after'")
    first = Client(session)
    first.shake_hands()
    first.socket.socket.shutdown(socket.SHUT_RDWR)
    resumed = nodes.ssm.resume_session(SessionId=session["SessionId"])
    assert resumed["TokenValue"] != session["TokenValue"]
    second = Client(resumed)
    second.until_closed()
    assert "after" in second.text(1)
    assert second.text(12) == "EXIT_CODE: 0" or "EXIT_CODE" in second.text(12)


def test_a_wrong_token_opens_nothing(nodes: NodeCloud, cluster: LocalCluster) -> None:
    client = Client(start(nodes, cluster, "true"), token="guess")
    with pytest.raises(ConnectionClosed):
        client.read()


def test_a_malformed_frame_closes_the_connection(nodes: NodeCloud, cluster: LocalCluster) -> None:
    client = Client(start(nodes, cluster, "true"))
    client.read()
    client.socket.send(b"nonsense")
    with pytest.raises(ConnectionClosed):
        client.until_closed()


def test_terminate_session_kills_the_command(nodes: NodeCloud, cluster: LocalCluster) -> None:
    session = start(nodes, cluster, "sleep 4242")
    client = Client(session)
    client.shake_hands()
    assert cluster.controller is not None
    controller = cluster.controller
    eventually(
        "it runs on the node",
        lambda: any("sleep 4242" in process.command for process in controller.processes()),
    )
    assert (
        nodes.ssm.terminate_session(SessionId=session["SessionId"])["SessionId"]
        == session["SessionId"]
    )
    client.until_closed()
    assert not any("sleep 4242" in process.command for process in controller.processes())
    assert code_of(nodes.ssm.terminate_session, SessionId="nobody-0123") == "DoesNotExistException"


def test_a_child_that_holds_the_output_holds_the_session(
    nodes: NodeCloud, cluster: LocalCluster, tmp_path: Path
) -> None:
    """As the real agent, which waits for its pipes without limit: the child goes on writing."""
    go = tmp_path / "go"
    child = f"while ! [ -e {go} ]; do sleep 0.05; done; echo late"
    client = Client(start(nodes, cluster, f"bash -c 'setsid bash -c \"{child}\" & echo early'"))
    client.shake_hands()
    while client.text(1) != "early\n":
        client.read()
    assert cluster.controller is not None
    controller = cluster.controller
    eventually(
        "the command itself has ended",
        lambda: not any("echo early" in process.command for process in controller.processes()),
    )
    # Longer than the two seconds after which the session used to end.
    with pytest.raises(TimeoutError):
        client.read(seconds=4)
    go.touch()
    client.until_closed()
    assert client.text(1) == "early\nlate\n"
    assert client.text(12) == "EXIT_CODE: 0"


def test_ctrl_c_reaches_the_command_and_not_its_children(
    nodes: NodeCloud, cluster: LocalCluster, tmp_path: Path
) -> None:
    """As the real agent, which signals its process alone; a terminal signals the whole group."""
    go = tmp_path / "go"
    child = (
        "import os, signal, time; "
        'signal.signal(signal.SIGINT, lambda *_: print("child was told", flush=True)); '
        f'print("ready", flush=True)\nwhile not os.path.exists("{go}"): time.sleep(0.02)'
    )
    program = tmp_path / "parent.py"
    program.write_text(
        "import signal, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "signal.signal(signal.SIGINT, lambda *_: print('parent was told', flush=True))\n"
        "sys.exit(child.wait())\n"
    )
    client = Client(start(nodes, cluster, f"{sys.executable} {program}"))
    client.shake_hands()
    while "ready" not in client.text(1):
        client.read()
    client.put(1, b"\x03", client.sequence)
    while "parent was told" not in client.text(1):
        client.read()
    go.touch()
    client.until_closed()
    assert client.text(1) == "ready\nparent was told\n"
    assert client.text(12) == "EXIT_CODE: 0"


@pytest.mark.parametrize("how", ["close", "drop", "silent"])
def test_a_data_channel_that_ends_at_any_moment_is_a_clear_error_and_the_command_may_be_repeated(
    nodes: NodeCloud, cluster: LocalCluster, how: str
) -> None:
    channel = SessionChannel(nodes.ssm, handshake_seconds=0.7)
    patient = SessionChannel(nodes.ssm)
    assert cluster.controller is not None
    target = nodes.target(cluster, cluster.controller)
    argv = ["trainyard-agent", "status", "--run", "x" * 3000]
    for when in ("before-handshake", "before-output", "in-output", "before-exit-code"):
        nodes.fault("cut-session", cluster, when=when, how=how)
        with pytest.raises(errors.NodeUnreachable) as caught:
            channel.run(lambda again: target, argv, timeout_seconds=2)
        assert caught.value.retryable
        assert any(
            words in str(caught.value)
            for words in ("broke off", "nothing came in", "did not end within")
        ), caught.value
        assert (
            json.loads(patient.run(lambda again: target, argv, timeout_seconds=60).stdout)["argv"]
            == argv[1:]
        )


def test_starts_are_limited_to_three_a_second(nodes: NodeCloud, cluster: LocalCluster) -> None:
    assert cluster.controller is not None
    request = {
        "Target": nodes.target(cluster, cluster.controller),
        "DocumentName": "AWS-StartNonInteractiveCommand",
        "Parameters": {"command": ["true"]},
    }

    def refused(_: int) -> str:
        try:
            nodes.ssm.start_session(**request)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    def burst() -> list[str]:
        """On a busy machine a few calls may take longer than the second in which they count."""
        with ThreadPoolExecutor(12) as threads:
            return [code for code in threads.map(refused, range(12)) if code]

    assert set(eventually("a burst is throttled", burst)) == {"ThrottlingException"}


def test_bad_requests_are_refused(nodes: NodeCloud, cluster: LocalCluster) -> None:
    eventually(
        "the limit has room again",
        lambda: not nodes.sessions._starts or time.monotonic() - nodes.sessions._starts[-1] > 1,
    )
    target = nodes.target(cluster, cluster.controller)  # type: ignore[arg-type]
    good = {
        "Target": target,
        "DocumentName": "AWS-StartNonInteractiveCommand",
        "Parameters": {"command": ["true"]},
    }
    assert (
        code_of(nodes.ssm.start_session, **{**good, "DocumentName": "AWS-Other"})
        == "InvalidDocument"
    )
    assert code_of(nodes.ssm.start_session, **{**good, "Parameters": {}}) == "InvalidParameters"
    assert (
        code_of(nodes.ssm.start_session, **{**good, "Target": target[:-17] + "0" * 17})
        == "TargetNotConnected"
    )


def test_an_encrypted_session_ends_with_the_clients_refusal(
    nodes: NodeCloud, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes.sessions, "_kms_key", "arn:aws:kms:us-east-1:123456789012:key/x")
    client = Client(start(nodes, cluster, "true"))
    client.shake_hands(status=3)
    client.until_closed()
    assert client.closed is not None
    assert "KMSEncryption failed on client with status 3" in client.closed["Output"]
    target = nodes.target(cluster, cluster.controller)  # type: ignore[arg-type]
    with pytest.raises(errors.SessionEncrypted):
        SessionChannel(nodes.ssm).run(lambda again: target, ["true"], timeout_seconds=10)
