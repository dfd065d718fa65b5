"""A command by SendCommand: each way in which it can end, late, twice, or not at all."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from tests.support.botocore_model import request_problems

from trainyard.aws.send_command import STDOUT_CHARACTERS, SendCommand
from trainyard.domain import errors
from trainyard.outside.commands import CommandResult

HEAD = "i-0123456789abcdef0"
DONE = {
    "Status": "Success", "StatusDetails": "Success", "ResponseCode": 0,
    "StandardOutputContent": "{}", "StandardErrorContent": "",
}  # fmt: skip
RUNS = {"Status": "InProgress", "StatusDetails": "InProgress", "ResponseCode": -1}
WAITS = {"Status": "Pending", "StatusDetails": "Pending", "ResponseCode": -1}
UNSEEN = "InvocationDoesNotExist"


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "AWS says why"}}, "x")


class Systems:
    """Systems Manager in words: `sends` and `looks` are what it answers, the last for ever."""

    def __init__(self, looks: list[Any], sends: list[Any] | None = None) -> None:
        self.looks, self.sends = looks, sends or ["1"]
        self.sent: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.now = 0.0

    def send_command(self, **request: Any) -> dict[str, Any]:
        assert request_problems("ssm", "SendCommand", request) == []
        self.sent.append(request)
        answer = self._next(self.sends)
        return {"Command": {"CommandId": f"{answer:>036}"}}

    def get_command_invocation(self, **request: Any) -> Any:
        return self._next(self.looks)

    def cancel_command(self, **request: Any) -> dict[str, Any]:
        self.cancelled += request["InstanceIds"]
        return {}

    def _next(self, answers: list[Any]) -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, str) and not answer.isdigit():
            raise refusal(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, argv: list[str] | None = None, seconds: float = 20) -> CommandResult:
        channel = SendCommand(self, monotonic=lambda: self.now, sleep=self.sleep)
        return channel.run(HEAD, argv or ["/bin/true"], timeout_seconds=seconds)


@pytest.mark.parametrize(
    "looks",
    [[DONE], [UNSEEN, UNSEEN, WAITS, RUNS, DONE], ["ThrottlingException", RUNS, DONE]],
)
def test_a_command_is_looked_at_until_it_has_ended(looks: list[Any]) -> None:
    assert Systems(looks).run() == CommandResult(0, "{}", "")


def test_an_exit_code_is_the_commands_own() -> None:
    failed = {**DONE, "Status": "Failed", "StatusDetails": "Failed", "ResponseCode": 3}
    assert Systems([failed]).run().exit_code == 3


@pytest.mark.real
@pytest.mark.parametrize(
    "word",
    ["$(touch /tmp/x)", "a b", "'; exit 7 #", '"`id`"', "--a=*", "new\nline", "ä €", "\\", "-n"],
)
def test_no_shell_reads_a_word_as_more_than_itself(word: str) -> None:
    systems = Systems([DONE])
    systems.run(["/usr/bin/printf", "%s|", word, word])
    (line,) = systems.sent[0]["Parameters"]["commands"]
    said = subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout
    assert said.decode() == f"{word}|{word}|"
    assert shlex.split(line) == ["/usr/bin/printf", "%s|", word, word]


def test_the_node_ends_a_command_for_which_nobody_waits_any_more() -> None:
    systems = Systems([DONE])
    systems.run(seconds=42.4)
    assert systems.sent[0]["Parameters"]["executionTimeout"] == ["42"]
    assert systems.sent[0]["TimeoutSeconds"] == 30, "AWS takes no less for the delivery"


@pytest.mark.parametrize("details", ["DeliveryTimedOut", "Undeliverable", "Terminated"])
def test_a_command_that_never_reached_the_node_may_be_repeated(details: str) -> None:
    never = {"Status": "Failed", "StatusDetails": details, "ResponseCode": -1}
    with pytest.raises(errors.NodeUnreachable, match=details):
        Systems([never]).run()


def test_a_command_that_took_too_long_on_the_node_is_a_timeout() -> None:
    late = {"Status": "TimedOut", "StatusDetails": "TimedOut", "ResponseCode": -1}
    with pytest.raises(errors.CommandTimeout):
        Systems([late]).run()


def test_a_command_that_does_not_end_is_given_up_in_time_and_cancelled() -> None:
    systems = Systems([RUNS])
    with pytest.raises(errors.CommandTimeout, match="within 20 s"):
        systems.run()
    assert systems.cancelled == [HEAD]
    assert 20 < systems.now < 30


def test_a_node_that_takes_no_command_is_unreachable_and_gets_none_later() -> None:
    systems = Systems([{**WAITS, "Status": "Delayed"}])
    with pytest.raises(errors.NodeUnreachable, match="does not answer"):
        systems.run()
    assert systems.cancelled == [HEAD]


def test_an_instance_that_is_not_known_yet_is_asked_again() -> None:
    systems = Systems([DONE], ["InvalidInstanceId", "ThrottlingException", "1"])
    assert systems.run().exit_code == 0
    assert len(systems.sent) == 3


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("InvalidInstanceId", errors.NodeUnreachable),
        ("ThrottlingException", errors.Throttled),
        ("AccessDeniedException", errors.CommandFailed),
        ("InvalidDocument", errors.CommandFailed),
    ],
)
def test_what_aws_refuses_is_told(code: str, error: type[errors.TrainyardError]) -> None:
    systems = Systems([DONE], [code])
    with pytest.raises(error, match="AWS says why"):
        systems.run()
    assert systems.now < 30


def test_a_command_of_which_nothing_is_ever_known_is_given_up() -> None:
    systems = Systems([UNSEEN])
    with pytest.raises(errors.NodeUnreachable, match="does not know it"):
        systems.run(seconds=60)
    assert systems.now < 30


def test_a_broken_connection_is_no_answer() -> None:
    broken = EndpointConnectionError(endpoint_url="https://ssm")
    assert Systems([broken, DONE]).run().exit_code == 0
    with pytest.raises(errors.NodeUnreachable, match="gave no answer"):
        Systems([DONE], [broken]).run()


def test_more_than_aws_keeps_is_refused_and_not_taken_for_all() -> None:
    cut = {**DONE, "StandardOutputContent": "x" * STDOUT_CHARACTERS}
    with pytest.raises(errors.CommandFailed, match="24,000") as refused:
        Systems([cut]).run()
    assert "--lines" in refused.value.next_step
