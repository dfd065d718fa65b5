"""State machines: started by name, so that starting twice is one start; woken by task token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from trainyard.aws.refusals import translated
from trainyard.domain import errors

Machine = Literal["run", "cluster", "teardown"]


class _Already(errors.TrainyardError):
    """The execution exists."""


class _Absent(errors.TrainyardError):
    """There is no such execution, or the token is spent."""


_SPENT = {"TaskTimedOut": _Absent, "TaskDoesNotExist": _Absent, "InvalidToken": _Absent}


class StateMachines:
    """The port `Executions` on Step Functions."""

    def __init__(self, sfn: Any, arns: Mapping[Machine, str]) -> None:
        self._sfn = sfn
        self._arns = arns

    def start(self, machine: Machine, name: str, payload: Mapping[str, Any]) -> None:
        try:
            with translated(f"start the {machine} machine", {"ExecutionAlreadyExists": _Already}):
                self._sfn.start_execution(
                    stateMachineArn=self._arns[machine], name=name, input=json.dumps(payload)
                )
        except _Already:
            return

    def status(self, machine: Machine, name: str) -> str | None:
        arn = self._arns[machine].replace(":stateMachine:", ":execution:", 1) + f":{name}"
        try:
            with translated(
                f"look at an execution of the {machine} machine", {"ExecutionDoesNotExist": _Absent}
            ):
                return str(self._sfn.describe_execution(executionArn=arn)["status"])
        except _Absent:
            return None

    def succeed(self, token: str, output: Mapping[str, Any]) -> bool:
        try:
            with translated("wake a state machine", _SPENT):
                self._sfn.send_task_success(taskToken=token, output=json.dumps(output))
        except _Absent:
            return False
        return True
