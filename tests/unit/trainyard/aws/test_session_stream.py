"""A conversation of frames: in order, once, repeated until acknowledged, ended with a reason."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.session_service import (
    conversation,
    exit_code,
    handshake,
    handshake_complete,
    output,
    raw_frame,
    read_frame,
)

from trainyard.aws import session_frames as frames
from trainyard.aws import session_stream
from trainyard.aws.session_stream import Conversation


@st.composite
def disordered_streams(draw: st.DrawFn) -> tuple[bytes, bytes, int, list[bytes]]:
    """stdout, stderr, exit code, and their frames: split anywhere, shuffled, some sent again."""
    stdout, stderr = draw(st.text(max_size=60)).encode(), draw(st.binary(max_size=60))
    code = draw(st.integers(-1, 255))
    pieces = [(1, piece) for piece in _split(stdout, draw)] + [
        (11, piece) for piece in _split(stderr, draw)
    ]
    ordered = [handshake(), handshake_complete()] + [
        output(number, piece, kind) for number, (kind, piece) in enumerate(pieces, start=2)
    ]
    ordered.append(exit_code(len(ordered), code))
    again = draw(st.lists(st.sampled_from(ordered), max_size=10))
    return stdout, stderr, code, draw(st.permutations(ordered + again))


def _split(data: bytes, draw: st.DrawFn) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(1, max(len(data) - 1, 1)), max_size=5)))
    edges = [0, *[cut for cut in cuts if cut < len(data)], len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@settings(max_examples=100, deadline=None)
@given(disordered_streams())
def test_any_order_any_duplicates_and_any_split_give_the_same_output(
    stream: tuple[bytes, bytes, int, list[bytes]],
) -> None:
    stdout, stderr, code, messages = stream
    talk = Conversation()
    answered = [read_frame(data) for message in messages for data in talk.receive(message)]
    assert (talk.stdout, talk.stderr) == (stdout.decode(), stderr.decode("utf-8", "replace"))
    assert talk.exit_code == code
    acknowledged = [answer for answer in answered if answer.message_type == "acknowledge"]
    assert len(acknowledged) == len(messages), "every frame is acknowledged, duplicates again"
    assert len([answer for answer in answered if answer.payload_type == 6]) == 1, (
        "the handshake is answered once"
    )


def test_an_acknowledgement_names_the_frame_it_answers() -> None:
    message = output(0, b"hello")
    (answer,) = [read_frame(data) for data in Conversation().receive(message)]
    assert (answer.sequence, answer.flags, answer.payload_type) == (0, 3, 0)
    assert answer.json == {
        "AcknowledgedMessageType": "output_stream_data",
        "AcknowledgedMessageId": str(frames.decode(message).message_id),
        "AcknowledgedMessageSequenceNumber": 0,
        "IsSequentialMessage": True,
    }


def test_an_encrypted_session_is_answered_unsupported() -> None:
    talk = Conversation()
    answer = [read_frame(data) for data in talk.receive(handshake(encrypted=True))][-1]
    assert [action["ActionStatus"] for action in answer.json["ProcessedClientActions"]] == [1, 3]
    assert talk.encrypted
    assert talk.finished


def test_what_is_not_acknowledged_is_sent_again_ever_more_slowly_until_it_is() -> None:
    now = [0.0]
    talk = Conversation(monotonic=lambda: now[0])
    talk.receive(handshake())
    at = _resends(6.0)
    assert [later - earlier for earlier, later in itertools.pairwise([0.0, *at])] == pytest.approx(
        [0.2, 0.4, 0.8, 1, 1, 1, 1], abs=0.11
    )
    talk.receive(
        raw_frame("acknowledge", 0, json.dumps({"AcknowledgedMessageSequenceNumber": 0}).encode())
    )
    now[0] = 100.0
    assert talk.overdue() == []


def _resends(seconds: float) -> list[float]:
    now = [0.0]
    talk = Conversation(monotonic=lambda: now[0])
    talk.receive(handshake())
    found = []
    while now[0] < seconds:
        if talk.overdue():
            found.append(now[0])
        now[0] += 0.1
    return found


def test_a_client_gives_up_when_nothing_is_ever_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_stream, "RESEND_TRIES", 3)
    now = [0.0]
    talk = Conversation(monotonic=lambda: now[0])
    talk.receive(handshake())
    for _ in range(4):
        now[0] += 2
        talk.overdue()
    assert talk.out_of_tries
    assert talk.finished


def test_a_pause_stops_neither_the_answer_nor_its_repetition() -> None:
    now = [0.0]
    talk = Conversation(monotonic=lambda: now[0])
    assert talk.receive(raw_frame("pause_publication", 0, b"")) == []
    assert [read_frame(data).message_type for data in talk.receive(handshake())] == [
        "acknowledge",
        "input_stream_data",
    ]
    now[0] = 5.0
    assert [read_frame(data).payload_type for data in talk.overdue()] == [6]


def test_after_a_failure_without_a_word_the_reason_is_waited_for_but_not_for_ever() -> None:
    now = [0.0]
    talk = Conversation(monotonic=lambda: now[0])
    for frame in (handshake(), handshake_complete(), exit_code(2, 1)):
        talk.receive(frame)
    assert not talk.finished
    now[0] = session_stream.REASON_SECONDS + 0.1
    assert talk.finished


@pytest.mark.parametrize(("words", "code"), [(b"", 0), (b"{}", 1)])
def test_a_success_and_a_failure_that_spoke_are_not_waited_for(words: bytes, code: int) -> None:
    talk = Conversation()
    for frame in (handshake(), handshake_complete(), output(2, words), exit_code(3, code)):
        talk.receive(frame)
    assert talk.finished


def test_frames_beyond_the_reordering_buffer_wait_for_their_repetition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_stream, "REORDER_CAPACITY", 2)
    talk = Conversation()
    assert talk.receive(output(1, b"b"))
    assert talk.receive(output(2, b"c"))
    assert talk.receive(output(3, b"d")) == [], "not acknowledged: the agent sends it again"
    assert talk.receive(output(2, b"c")), "a frame that is kept already is acknowledged again"
    talk.receive(output(0, b"a"))
    talk.receive(output(3, b"d"))
    assert talk.stdout == "abcd"


@pytest.mark.parametrize(
    "message",
    [
        output(0, b"not json", 5),
        output(0, b'{"RequestedClientActions": 3}', 5),
        output(0, b'{"RequestedClientActions": [{}]}', 5),
        output(0, b"exit: zero", 12),
        raw_frame("acknowledge", 0, b"[]"),
        raw_frame("acknowledge", 0, b"{}"),
        raw_frame("channel_closed", 0, b"\xff", header_length=112),
    ],
)
def test_a_control_message_that_makes_no_sense_is_passed_over_and_remembered(
    message: bytes,
) -> None:
    talk = Conversation()
    talk.receive(message)
    assert talk.unreadable
    assert talk.exit_code is None


def test_unknown_message_types_are_ignored() -> None:
    assert Conversation().receive(raw_frame("agent_job_ack", 0, b"{}")) == []


def test_a_whole_conversation_in_order() -> None:
    talk = Conversation()
    for message in conversation(b"out", b"err", 3):
        talk.receive(message)
    assert (talk.stdout, talk.stderr, talk.exit_code, talk.closed) == ("out", "err", 3, True)
