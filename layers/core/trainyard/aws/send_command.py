"""Runs one command on an EC2 instance through Systems Manager's SendCommand, and waits for its end.

SendCommand is asynchronous: the answer is asked for until it is there. What it keeps of an answer
is short, so a longer one is refused and not taken for whole.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from trainyard.aws.refusals import code_of, message_of, translated
from trainyard.domain import errors
from trainyard.outside.commands import CommandResult

DOCUMENT = "AWS-RunShellScript"
#: The characters of what a command prints that GetCommandInvocation keeps.
STDOUT_CHARACTERS = 24_000
#: AWS takes no shorter time for the delivery of a command.
_DELIVERY_SECONDS = 30
#: An instance that just booted or lost its agent is known again within seconds or not at all; the
#: step as a whole is repeated.
NOT_KNOWN_SECONDS = 20.0
#: SendCommand answers before GetCommandInvocation knows of it.
NOT_VISIBLE_SECONDS = 15.0
#: Beyond a command's own time: its delivery and the look at its end.
_GRACE_SECONDS = 5.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.2, 3.0
_PASSING = frozenset(
    {
        "ThrottlingException",
        "Throttling",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "InternalServerError",
        "InternalServerException",
        "ServiceUnavailable",
    }
)
#: StatusDetails of a command that never began on the instance.
_UNDELIVERED = frozenset(
    {"DeliveryTimedOut", "Undeliverable", "Terminated", "Delivery Timed Out", "InvalidPlatform"}
)
_RUNNING = frozenset({"Pending", "InProgress", "Delayed", "Cancelling"})
_FEWER = (
    "Ask for less at once: fewer lines of a log (--lines), or those of one rank or with one text "
    "(--rank, --grep)."
)
_ALLOW = (
    "template.yaml lets Trainyard's functions send commands to instances with the tag "
    "trainyard:stage of this stack; look whether the head node has it."
)


class SendCommand:
    """`run(instance, argv)`: the words are data; no shell reads one as more than itself."""

    def __init__(
        self,
        ssm: Any,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ssm = ssm
        self._monotonic = monotonic
        self._sleep = sleep

    def run(self, instance: str, argv: Sequence[str], *, timeout_seconds: float) -> CommandResult:
        """Run argv as root and wait for its exit code.

        Raises errors.NodeUnreachable, errors.CommandTimeout, errors.CommandFailed.
        """
        deadline = self._monotonic() + timeout_seconds
        command = self._send(instance, shlex.join(argv), timeout_seconds, deadline)
        waits, late = _backoff(), deadline + _GRACE_SECONDS
        unseen, last = self._monotonic() + NOT_VISIBLE_SECONDS, None
        while True:
            last = self._look(instance, command) or last
            if last is None and self._monotonic() >= min(unseen, late):
                raise errors.NodeUnreachable(
                    f"Systems Manager took command {command} for {instance} and does not know it"
                )
            if last is not None and last["Status"] not in _RUNNING:
                return _result(instance, last, timeout_seconds)
            if self._monotonic() >= late:
                self._give_up(instance, command)
                raise _late(last, instance, timeout_seconds)
            self._sleep(min(next(waits), max(0.0, late - self._monotonic())))

    def _send(self, instance: str, line: str, seconds: float, deadline: float) -> str:
        """The command's id. An instance that is not known may be on its way."""
        waits, unknown_until = _backoff(), self._monotonic() + NOT_KNOWN_SECONDS
        while True:
            try:
                answer = self._ssm.send_command(
                    InstanceIds=[instance],
                    DocumentName=DOCUMENT,
                    TimeoutSeconds=_DELIVERY_SECONDS,
                    Parameters={
                        "commands": [line],
                        "executionTimeout": [str(max(1, round(seconds)))],
                    },
                )
            except ClientError as refused:
                passing = code_of(refused) in _PASSING or code_of(refused) == "InvalidInstanceId"
                if not passing or self._monotonic() >= min(unknown_until, deadline):
                    raise _refusal(instance, refused) from refused
                self._sleep(next(waits))
                continue
            except BotoCoreError as broken:
                raise errors.NodeUnreachable(
                    f"Systems Manager gave no answer: {broken}"
                ) from broken
            return str(answer["Command"]["CommandId"])

    def _look(self, instance: str, command: str) -> dict[str, Any] | None:
        """What is known of the command; None while nothing is, or AWS cannot say it now."""
        try:
            answer = self._ssm.get_command_invocation(CommandId=command, InstanceId=instance)
        except ClientError as refused:
            if code_of(refused) == "InvocationDoesNotExist" or code_of(refused) in _PASSING:
                return None
            raise _refusal(instance, refused) from refused
        except BotoCoreError:
            return None
        found: dict[str, Any] = answer
        return found

    def _give_up(self, instance: str, command: str) -> None:
        """A command that nobody waits for shall not begin late; it may end all the same."""
        try:
            with translated("cancel a command"):
                self._ssm.cancel_command(CommandId=command, InstanceIds=[instance])
        except errors.TrainyardError:
            pass


def _backoff() -> Iterator[float]:
    seconds = _FIRST_WAIT_SECONDS
    while True:
        yield seconds
        seconds = min(seconds * 1.6, _LONGEST_WAIT_SECONDS)


def _result(instance: str, answer: dict[str, Any], seconds: float) -> CommandResult:
    details = str(answer.get("StatusDetails") or answer["Status"])
    code = int(answer.get("ResponseCode", -1))
    stdout = str(answer.get("StandardOutputContent") or "")
    stderr = str(answer.get("StandardErrorContent") or "")
    if details in _UNDELIVERED:
        raise errors.NodeUnreachable(f"{instance} did not take the command: {details}")
    if answer["Status"] == "TimedOut" or details.replace(" ", "") == "ExecutionTimedOut":
        raise errors.CommandTimeout(f"the command did not end within {seconds:g} s on {instance}")
    if answer["Status"] == "Cancelled" or code < 0:
        raise errors.NodeUnreachable(f"{instance} did not run the command: {details}. {stderr}")
    if len(stdout) >= STDOUT_CHARACTERS:
        raise errors.CommandFailed(
            f"the command printed more than the {STDOUT_CHARACTERS:,} characters that Systems "
            "Manager keeps",
            next_step=_FEWER,
        )
    return CommandResult(code, stdout, stderr)


def _late(
    answer: Mapping[str, Any] | None, instance: str, seconds: float
) -> errors.NodeUnreachable:
    if answer is None or answer["Status"] in ("Pending", "Delayed"):
        return errors.NodeUnreachable(
            f"{instance} did not take the command within {seconds:g} s: its Systems Manager agent "
            "does not answer"
        )
    return errors.CommandTimeout(f"the command did not end within {seconds:g} s on {instance}")


def _refusal(instance: str, refused: ClientError) -> errors.TrainyardError:
    code, words = code_of(refused), message_of(refused)
    said = f"AWS refused a command for {instance} ({code}): {words}"
    if code in ("InvalidInstanceId", "InternalServerError"):
        return errors.NodeUnreachable(said)
    if code in _PASSING:
        return errors.Throttled(said)
    if code in ("AccessDenied", "AccessDeniedException"):
        return errors.CommandFailed(said, next_step=_ALLOW)
    return errors.CommandFailed(said)
