"""The Session Manager client against a scripted service over a real websocket."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.support.session_service import (
    ScriptedSessions,
    channel_closed,
    conversation,
    exit_code,
    handshake,
    handshake_complete,
    output,
    play,
    raw_frame,
    sessions,
)
from websockets.sync.server import ServerConnection

from trainyard.aws.session_channel import SessionChannel
from trainyard.aws.session_start import RateLimit, SessionStart
from trainyard.domain import errors
from trainyard.outside.commands import CommandResult

pytestmark = pytest.mark.real

ARGV = ["/opt/trainyard/bin/trainyard-agent", "status", "--run", "run-1; rm -rf $HOME `x` 'y'"]
Service = Callable[[Callable[[ServerConnection, ScriptedSessions], None]], ScriptedSessions]


@pytest.fixture
def service() -> Iterator[Service]:
    opened: list[Any] = []

    def start(script: Callable[[ServerConnection, ScriptedSessions], None]) -> ScriptedSessions:
        opened.append(sessions(script))
        return opened[-1].__enter__()

    yield start
    for context in opened:
        context.__exit__(None, None, None)


def channel(scripted: ScriptedSessions, **kwargs: Any) -> SessionChannel:
    start = SessionStart(scripted, limit=RateLimit(1000), sleep=lambda _seconds: None, **kwargs)
    return SessionChannel(scripted, start=start)


def run(scripted: ScriptedSessions, *, timeout_seconds: float = 5) -> CommandResult:
    return channel(scripted).run(
        lambda _again: "sagemaker-cluster:abc_controller-i-1", ARGV, timeout_seconds=timeout_seconds
    )


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "says AWS"}}, "StartSession")


def test_a_command_returns_its_output_and_exit_code_and_the_session_is_ended(
    service: Service,
) -> None:
    scripted = service(play(*conversation(b'{"state": "running"}\n', "wärning\n".encode(), 7)))
    assert run(scripted) == CommandResult(7, '{"state": "running"}\n', "wärning\n")
    assert scripted.terminated == ["session-1"]


def test_every_string_of_the_command_arrives_as_data(service: Service) -> None:
    scripted = service(play(*conversation()))
    run(scripted)
    (request,) = scripted.started
    assert request["DocumentName"] == "AWS-StartNonInteractiveCommand"
    assert request["Parameters"]["separateOutputStream"] == ["true"]
    assert shlex.split(request["Parameters"]["command"][0]) == ARGV


def test_the_opening_frame_carries_the_token_and_a_version_that_gets_exit_codes(
    service: Service,
) -> None:
    scripted = service(play(*conversation()))
    run(scripted)
    assert scripted.opening["TokenValue"] == "token-1"
    assert scripted.opening["MessageSchemaVersion"] == "1.0"
    assert tuple(int(part) for part in scripted.opening["ClientVersion"].split(".")) > (1, 2, 295)


def test_the_handshake_is_answered_before_the_agent_goes_on(service: Service) -> None:
    def script(socket: ServerConnection, scripted: ScriptedSessions) -> None:
        socket.send(handshake())
        (answer,) = scripted.await_received(1, "input_stream_data")
        assert (answer.sequence, answer.payload_type) == (0, 6)
        assert answer.json["ProcessedClientActions"] == [
            {"ActionType": "SessionType", "ActionStatus": 1, "ActionResult": None, "Error": ""}
        ]
        for frame in conversation(b"ok")[1:]:
            socket.send(frame)

    assert run(service(script)).stdout == "ok"


def test_an_unacknowledged_handshake_answer_is_sent_again_over_the_wire(service: Service) -> None:
    def script(socket: ServerConnection, scripted: ScriptedSessions) -> None:
        socket.send(handshake())
        first, again = scripted.await_received(2, "input_stream_data")[:2]
        assert first == again
        for frame in conversation(b"ok")[1:]:
            socket.send(frame)

    assert run(service(script)).stdout == "ok"


def test_shuffled_and_duplicated_output_comes_out_in_order(service: Service) -> None:
    first, complete, *rest = [
        handshake(),
        handshake_complete(),
        output(2, b"a"),
        output(3, b"b"),
        output(4, b"c"),
        exit_code(5, 0),
    ]
    scripted = service(play(rest[3], rest[1], rest[1], complete, first, first, rest[2], rest[0]))
    assert run(scripted).stdout == "abc"


def test_an_encrypted_session_is_refused_with_what_to_do(service: Service) -> None:
    def script(socket: ServerConnection, scripted: ScriptedSessions) -> None:
        socket.send(handshake(encrypted=True))
        (answer,) = scripted.await_received(1, "input_stream_data")
        assert answer.json["ProcessedClientActions"][1]["ActionStatus"] == 3

    scripted = service(script)
    with pytest.raises(errors.SessionEncrypted) as caught:
        run(scripted)
    assert "preferences" in caught.value.next_step
    assert scripted.terminated == ["session-1"]


def test_a_command_that_could_not_start_gives_the_services_words(service: Service) -> None:
    scripted = service(play(handshake(), channel_closed("Unable to start command: no such file")))
    with pytest.raises(errors.NodeUnreachable, match="Unable to start command: no such file"):
        run(scripted)


def test_a_missing_exit_code_is_an_error_and_not_a_success(service: Service) -> None:
    scripted = service(
        play(handshake(), handshake_complete(), output(2, b"half an answer"), channel_closed())
    )
    with pytest.raises(
        errors.NodeUnreachable, match="without the command's exit code: half an answer"
    ):
        run(scripted)
    assert scripted.terminated == ["session-1"]


BROKEN = [
    output(0, b"abc")[:-1],
    output(0, b"abc")[:60],
    b"",
    b"garbage" * 40,
    "text",
    raw_frame("", 0, b""),
]


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_frame_is_passed_over_as_awss_own_plugin_does(
    service: Service, message: bytes | str
) -> None:
    scripted = service(play(message, *conversation(stdout=b"fine")))
    assert run(scripted) == CommandResult(0, "fine", "")


@pytest.mark.parametrize("message", BROKEN)
def test_where_nothing_but_broken_frames_came_the_error_says_so(
    service: Service, message: bytes | str
) -> None:
    scripted = service(play(message, channel_closed()))
    with pytest.raises(errors.NodeUnreachable, match="a frame could not be read"):
        run(scripted)
    assert scripted.terminated == ["session-1"]


@pytest.mark.parametrize(
    "late",
    [channel_closed("fork/exec /x: no such file"), output(3, b"fork/exec /x: no such file", 11)],
)
def test_why_a_command_could_not_start_comes_after_its_exit_code_and_is_kept(
    service: Service, late: bytes
) -> None:
    read = threading.Event()

    def script(socket: ServerConnection, scripted: ScriptedSessions) -> None:
        for frame in (handshake(), handshake_complete(), exit_code(2, 1)):
            socket.send(frame)
        scripted.await_received(3, "acknowledge")  # the exit code was read
        read.set()
        socket.send(late)

    assert run(service(script)) == CommandResult(1, "", "fork/exec /x: no such file")
    assert read.is_set()


def test_a_pause_holds_up_no_handshake(service: Service) -> None:
    first, *rest = conversation(stdout=b"fine")

    def script(socket: ServerConnection, scripted: ScriptedSessions) -> None:
        socket.send(raw_frame("pause_publication", 0, b""))
        socket.send(first)
        scripted.await_received(1, "input_stream_data")
        for frame in rest:
            socket.send(frame)

    assert run(service(script)) == CommandResult(0, "fine", "")


def test_a_connection_that_breaks_off_is_retryable(service: Service) -> None:
    scripted = service(play(handshake()))
    with pytest.raises(errors.NodeUnreachable, match="broke off") as caught:
        run(scripted)
    assert caught.value.retryable


def test_a_data_channel_that_nobody_serves_is_retryable(service: Service) -> None:
    scripted = service(play())
    scripted.url = "ws://127.0.0.1:9/v1/data-channel/x"
    with pytest.raises(errors.NodeUnreachable):
        run(scripted)
    assert scripted.terminated == ["session-1"]


def test_a_command_that_never_ends_times_out_and_is_ended(service: Service) -> None:
    def script(socket: ServerConnection, scripted: ScriptedSessions) -> None:
        socket.send(handshake())
        with scripted.changed:
            assert scripted.changed.wait_for(lambda: scripted.terminated, timeout=120)

    scripted = service(script)
    with pytest.raises(errors.CommandTimeout, match=r"0\.4 s"):
        run(scripted, timeout_seconds=0.4)
    assert scripted.terminated == ["session-1"]


def test_a_channel_that_never_says_a_word_is_given_up_long_before_the_commands_own_time(
    service: Service,
) -> None:
    def script(socket: ServerConnection, scripted: ScriptedSessions) -> None:
        with scripted.changed:
            assert scripted.changed.wait_for(lambda: scripted.terminated, timeout=120)

    scripted = service(script)
    start = SessionStart(scripted, limit=RateLimit(1000), sleep=lambda _seconds: None)
    began = time.monotonic()
    with pytest.raises(errors.NodeUnreachable, match=r"nothing came in 0\.3 s"):
        SessionChannel(scripted, start=start, handshake_seconds=0.3).run(
            lambda _again: "t", ARGV, timeout_seconds=600
        )
    assert time.monotonic() - began < 300
    assert scripted.terminated == ["session-1"]


def test_a_node_that_is_not_connected_is_tried_again_and_looked_up_anew(service: Service) -> None:
    scripted = service(play(*conversation(b"ok")))
    scripted.refusals = [refusal("TargetNotConnected"), refusal("TargetNotConnected")]
    asked: list[bool] = []

    def target(again: bool) -> str:
        asked.append(again)
        return f"sagemaker-cluster:abc_controller-i-{len(asked)}"

    assert channel(scripted).run(target, ARGV, timeout_seconds=5).stdout == "ok"
    assert asked == [False, True, True]
    assert [request["Target"][-1] for request in scripted.started] == ["1", "2", "3"]


def test_a_throttled_start_is_tried_again(service: Service) -> None:
    scripted = service(play(*conversation(b"ok")))
    scripted.refusals = [refusal("ThrottlingException")]
    assert run(scripted).stdout == "ok"


def test_a_node_that_stays_away_is_unreachable_within_bounds(service: Service) -> None:
    scripted = service(play())
    scripted.refusals = [refusal("TargetNotConnected")] * 100
    clock = [0.0]
    start = SessionStart(
        scripted,
        limit=RateLimit(1000),
        monotonic=lambda: clock[0],
        sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds),
    )
    with pytest.raises(errors.NodeUnreachable, match="not connected: says AWS"):
        start(lambda _again: "t", "d", {}, 1000.0)
    assert 10 < clock[0] <= 21
    assert len(scripted.started) < 12


def test_throttling_that_stays_is_said(service: Service) -> None:
    scripted = service(play())
    scripted.refusals = [refusal("ThrottlingException")] * 10
    with pytest.raises(errors.Throttled):
        channel(scripted, not_connected_seconds=0.1).run(
            lambda _again: "t", ARGV, timeout_seconds=5
        )


def test_at_most_three_sessions_start_in_any_second() -> None:
    clock, passes = [0.0], []
    limit = RateLimit(
        3,
        monotonic=lambda: clock[0],
        sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds + 1e-6),
    )
    for _ in range(10):
        limit.wait()
        passes.append(clock[0])
    assert all(later - earlier >= 1 for earlier, later in zip(passes, passes[3:], strict=False))
    assert passes[2] == 0, "three may start at once"
    assert passes[-1] < 3.2
