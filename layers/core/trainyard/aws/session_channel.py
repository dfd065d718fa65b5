"""Runs one command on a node through Session Manager's data channel, without plugin or terminal.

SendCommand cannot reach HyperPod nodes. StartSession with AWS-StartNonInteractiveCommand is the
only remote execution there is.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from trainyard.aws.session_start import SessionStart
from trainyard.aws.session_stream import CLIENT_VERSION, Conversation
from trainyard.domain import errors
from trainyard.outside.commands import CommandResult

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

DOCUMENT = "AWS-StartNonInteractiveCommand"
_TICK_SECONDS = 0.1
_CLOSE_SECONDS = 0.5
#: The node's agent speaks first, and gives a handshake up after as long.
HANDSHAKE_SECONDS = 15.0


class SessionChannel:
    """`run(target, argv)` on a target such as `sagemaker-cluster:<id>_<group>-<instance>`."""

    def __init__(
        self,
        ssm: Any,
        *,
        start: SessionStart | None = None,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._ssm = ssm
        self._handshake_seconds = handshake_seconds
        self._start = start or SessionStart(ssm)

    def run(
        self, target: Callable[[bool], str], argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        """Run argv and wait for its exit code.

        `target(again)` names the node; again=True after it was not connected.

        Raises errors.NodeUnreachable, errors.CommandTimeout, errors.SessionEncrypted,
        errors.CommandFailed.
        """
        deadline = time.monotonic() + timeout_seconds
        parameters = {"command": [shlex.join(argv)], "separateOutputStream": ["true"]}
        session = self._start(target, DOCUMENT, parameters, deadline)
        try:
            return self._converse(
                session["StreamUrl"], session["TokenValue"], deadline, timeout_seconds
            )
        finally:
            self._terminate(session["SessionId"])

    def _converse(
        self, url: str, token: str, deadline: float, timeout_seconds: float
    ) -> CommandResult:
        conversation = Conversation()
        with _channel(url, deadline) as socket:
            socket.send(_opening(token))
            silent_until = time.monotonic() + self._handshake_seconds
            while not conversation.finished:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise errors.CommandTimeout(
                        f"the command did not end within {timeout_seconds:g} "
                        f"s{_unread(conversation)}"
                    )
                if not conversation.begun and time.monotonic() > silent_until:
                    raise errors.NodeUnreachable(
                        "the session's data channel is open, but nothing came in "
                        f"{self._handshake_seconds:g} s{_unread(conversation)}"
                    )
                _exchange(socket, conversation, min(left, _TICK_SECONDS))
        return _result(conversation)

    def _terminate(self, session_id: str) -> None:
        # A session that nobody ends keeps its process for 20 idle minutes. It may have ended by
        # itself.
        with suppress(ClientError, BotoCoreError):
            self._ssm.terminate_session(SessionId=session_id)


@contextmanager
def _channel(url: str, deadline: float) -> Any:
    """The websocket; everything that can go wrong with it is raised as NodeUnreachable."""
    from websockets.exceptions import (
        WebSocketException,
    )  # imported here: most functions never open a channel
    from websockets.sync.client import connect

    left = max(deadline - time.monotonic(), 0.1)
    try:
        with connect(
            url,
            open_timeout=min(left, 10),
            close_timeout=_CLOSE_SECONDS,
            ping_interval=None,
            compression=None,
            max_size=None,
            proxy=None,
        ) as socket:
            yield socket
    except (OSError, WebSocketException) as lost:
        raise errors.NodeUnreachable(
            f"the session's data channel broke off before the command ended: {lost}"
        ) from lost


def _opening(token: str) -> str:
    """The first frame, the only one of text: the token authenticates the channel."""
    return json.dumps(
        {
            "MessageSchemaVersion": "1.0",
            "RequestId": str(uuid4()),
            "TokenValue": token,
            "ClientId": str(uuid4()),
            "ClientVersion": CLIENT_VERSION,
        }
    )


def _exchange(socket: ClientConnection, conversation: Conversation, wait_seconds: float) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        data = socket.recv(timeout=wait_seconds)
    except TimeoutError:
        data = None
    except ConnectionClosed:
        if conversation.exit_code is None:
            raise
        conversation.closed = True
        return
    answers = (
        []
        if data is None
        else conversation.receive(data.encode() if isinstance(data, str) else data)
    )
    with suppress(
        ConnectionClosed
    ):  # the other side may be gone while frames it sent, the exit code even, wait to be read
        for frame in [*answers, *conversation.overdue()]:
            socket.send(frame)


def _result(conversation: Conversation) -> CommandResult:
    if conversation.encrypted:
        raise errors.SessionEncrypted(
            "the account's Session Manager preferences ask for KMS encryption of every session"
        )
    if conversation.exit_code is not None:
        # A command that could not start wrote nothing; the reason comes with the channel's end.
        silent = not conversation.stdout and not conversation.stderr
        words = (
            conversation.close_reason if silent and conversation.exit_code else conversation.stderr
        )
        return CommandResult(conversation.exit_code, conversation.stdout, words)
    if conversation.out_of_tries:
        raise errors.NodeUnreachable("the node acknowledged nothing that was sent to it")
    said = (conversation.close_reason or conversation.stderr or conversation.stdout).strip()
    if conversation.close_reason:
        raise errors.NodeUnreachable(f"Session Manager closed the session: {said}")
    words = (
        "the session ended without the command's exit "
        f"code{': ' + said[-500:] if said else ''}{_unread(conversation)}"
    )
    raise errors.NodeUnreachable(words, next_step=_NO_CODE)


def _unread(conversation: Conversation) -> str:
    return (
        f"; a frame could not be read: {conversation.unreadable}" if conversation.unreadable else ""
    )


_NO_CODE = (
    "Repeat the command; if it stays, update the SSM agent on the node (3.1.1511 or newer "
    "sends exit codes)."
)
