"""StartSession with its quirks: three calls a second, and nodes that do not connect at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from trainyard.aws.refusals import code_of, message_of, translated
from trainyard.domain import errors

CALLS_PER_SECOND = 3
#: A little over a second: AWS counts when calls arrive, and they come closer together than they
#: were sent.
WINDOW_SECONDS = 1.05
#: A node that just booted or is being replaced connects within seconds or not at all; the step as a
#: whole is repeated.
NOT_CONNECTED_SECONDS = 20.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.25, 4.0
_RETRIED = frozenset(
    {"TargetNotConnected", "ThrottlingException", "Throttling", "TooManyRequestsException"}
)


class RateLimit:
    """At most `per_second` passes in any second, shared by all threads of the process."""

    def __init__(
        self,
        per_second: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._per_second = per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._passes: list[float] = []
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when one more call is allowed."""
        while (seconds := self._reserve()) > 0:
            self._sleep(seconds)

    def _reserve(self) -> float:
        with self._lock:
            now = self._monotonic()
            self._passes = [at for at in self._passes if now - at < WINDOW_SECONDS]
            if len(self._passes) < self._per_second:
                self._passes.append(now)
                return 0
            return self._passes[0] + WINDOW_SECONDS - now


_LIMIT = RateLimit(CALLS_PER_SECOND)


class SessionStart:
    """Starts a session, trying again while the node is not connected or AWS throttles us."""

    def __init__(
        self,
        ssm: Any,
        *,
        limit: RateLimit = _LIMIT,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        not_connected_seconds: float = NOT_CONNECTED_SECONDS,
    ) -> None:
        self._ssm = ssm
        self._limit = limit
        self._sleep = sleep
        self._monotonic = monotonic
        self._patience = not_connected_seconds

    def __call__(
        self,
        target: Callable[[bool], str],
        document: str,
        parameters: Mapping[str, Sequence[str]],
        deadline: float,
    ) -> dict[str, Any]:
        """`deadline` is of the monotonic clock. Raises errors.NodeUnreachable, errors.Throttled."""
        until = min(deadline, self._monotonic() + self._patience)
        again, wait = False, _FIRST_WAIT_SECONDS
        while True:
            self._limit.wait()
            refusal = None
            try:
                return self._send(target(again), document, parameters)
            except ClientError as caught:
                refusal = caught
            if code_of(refusal) not in _RETRIED or self._monotonic() + wait > until:
                raise self._error(refusal) from refusal
            again = code_of(refusal) == "TargetNotConnected"
            self._sleep(wait * random.uniform(0.75, 1.25))
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)

    def _send(
        self, target: str, document: str, parameters: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        try:
            return dict(
                self._ssm.start_session(Target=target, DocumentName=document, Parameters=parameters)
            )
        except BotoCoreError as broken:
            raise errors.NodeUnreachable(f"StartSession did not go through: {broken}") from broken

    def _error(self, refusal: ClientError) -> errors.TrainyardError:
        if code_of(refusal) == "TargetNotConnected":
            return errors.NodeUnreachable(
                f"Session Manager says that the node is not connected: {message_of(refusal)}"
            )
        try:
            with translated("start a Session Manager session"):
                raise refusal
        except errors.TrainyardError as error:
            return error
