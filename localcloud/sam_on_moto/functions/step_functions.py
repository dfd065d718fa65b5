"""Makes moto's Step Functions run machines as AWS does: tasks under their role, exact tokens.

Supported are JSONPath machines whose tasks are `lambda:invoke`, with or without
`.waitForTaskToken`.
Anything else is refused when the machine is created.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from sam_on_moto.functions import histories
from sam_on_moto.functions.registry import Functions, NoSuchFunction
from sam_on_moto.functions.runtime_api import Invocation
from sam_on_moto.iam.access import Access, Denied
from sam_on_moto.inside.place import ACCOUNT_ID, REGION
from sam_on_moto.moto_patches.pinned import replace, wrap
from sam_on_moto.moto_patches.quotas import MOST_STATE_BYTES

log = logging.getLogger(__name__)

HEAD_START_SECONDS = 0.01
LAMBDA_TASKS = ("arn:aws:states:::lambda:invoke", "arn:aws:states:::lambda:invoke.waitForTaskToken")

#: Of one execution's history, its end included.
MOST_EVENTS = 25_000
TERMINAL_ERRORS = ("States.DataLimitExceeded", "States.Runtime")


class TooLarge(Exception):
    """A task's input or result is over the limit of a state."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The state/task '{name}' returned a result with a size exceeding the maximum number "
            "of bytes service limit."
        )


def check_definition(name: str, definition: str) -> None:
    """Raises ValueError, naming the state, for what this interpreter would not run as AWS does."""
    machine = json.loads(definition)
    if machine.get("QueryLanguage", "JSONPath") != "JSONPath":
        raise ValueError(
            f"state machine {name}: the local cloud runs JSONPath machines only, "
            f"not {machine['QueryLanguage']}"
        )
    if machine["StartAt"] not in machine["States"]:
        raise ValueError(f"state machine {name}: StartAt names no state: {machine['StartAt']}")
    for label, state, siblings in _states(machine):
        where = f"state machine {name}, state {label}"
        if state.get("QueryLanguage", "JSONPath") != "JSONPath":
            raise ValueError(f"{where}: the local cloud runs JSONPath states only")
        if state["Type"] == "Task" and state["Resource"] not in LAMBDA_TASKS:
            raise ValueError(
                f"{where}: the local cloud runs {' and '.join(LAMBDA_TASKS)} only, "
                f"not {state['Resource']}"
            )
        for target in _targets(state):
            if target not in siblings:
                raise ValueError(f"{where}: leads to {target}, which does not exist")


def _states(
    machine: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    siblings = machine["States"]
    for label, state in siblings.items():
        yield label, state, siblings
        for inner in [
            state.get("ItemProcessor"),
            state.get("Iterator"),
            *state.get("Branches", []),
        ]:
            if inner:
                yield from _states(inner)


def _targets(state: Mapping[str, Any]) -> list[str]:
    rules = [*state.get("Catch", []), *state.get("Choices", [])]
    return [
        t
        for t in [state.get("Next"), state.get("Default"), *(rule.get("Next") for rule in rules)]
        if t
    ]


def install(access: Access, functions: Functions) -> None:
    """Hook moto's interpreter; once per process, before the first state machine is created."""
    from moto.core.config import default_user_config

    default_user_config["stepfunctions"]["execute_state_machine"] = True
    _install_quiet_errors()
    _install_start_execution()
    _install_head_start()
    _install_task_tokens()
    _install_stop()
    _install_terminal_errors()
    _install_full_history()
    histories.install()
    _install_lambda_tasks(access, functions)


def _install_quiet_errors() -> None:
    """A step's error is logged in one line; it is in the execution's history anyway.

    moto prints the whole parsed state machine for it, several times.
    """
    from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent

    def failure(self: Any, failure_event_exception: Any) -> None:
        name = failure_event_exception.failure_event.error_name
        log.info("%s: %s", type(self).__name__, name and name.error_name)

    def other(self: Any, exception: Exception) -> None:
        log.info("%s: %r", type(self).__name__, exception)

    replace(
        EvalComponent,
        "_log_failure_event_exception",
        failure,
        parameters=("self", "failure_event_exception"),
    )
    replace(EvalComponent, "_log_exception", other, parameters=("self", "exception"))


def _install_start_execution() -> None:
    """Unnamed executions get names; moto calls them all None.

    Two calls with one name cannot both start one.
    """
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend as Backend

    lock = threading.Lock()

    def start(
        self: Any,
        state_machine_arn: str,
        name: str | None = None,
        execution_input: str | None = None,
        trace_header: str | None = None,
    ) -> Any:
        with lock:
            return original(
                self,
                state_machine_arn,
                name or str(uuid.uuid4()),
                execution_input or "{}",
                trace_header,
            )

    expected = ("self", "state_machine_arn", "name", "execution_input", "trace_header")
    original = replace(Backend, "start_execution", start, parameters=expected)


def _install_head_start() -> None:
    """The answer to StartExecution is on its way before the first state is entered, as on AWS.

    So the two do not share one interpreter lock.
    """
    from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

    def start(self: Any) -> None:
        thread = threading.Timer(HEAD_START_SECONDS, self._execution_logic)
        thread.daemon = True
        thread.start()

    replace(ExecutionWorker, "start", start, parameters=("self",))


def _install_task_tokens() -> None:
    """A token works once, and for every running execution.

    moto takes a spent one again, and looks only at executions that have an environment already.
    """
    from moto.stepfunctions.parser import api
    from moto.stepfunctions.parser.asl.eval.callback.callback import (
        CallbackOutcomeFailure,
        CallbackOutcomeSuccess,
    )
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend as Backend

    lock = threading.Lock()

    def notify(backend: Any, token: str, outcome: Any) -> None:
        with lock:
            _waiting(backend, token).notify(outcome=outcome)

    def succeed(self: Any, task_token: str, outcome: str) -> None:
        _check_output(outcome)
        notify(self, task_token, CallbackOutcomeSuccess(callback_id=task_token, output=outcome))

    def fail(self: Any, task_token: str, error: str | None = None, cause: str | None = None) -> Any:
        notify(
            self,
            task_token,
            CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause),
        )
        return api.SendTaskFailureOutput()

    replace(Backend, "send_task_success", succeed, parameters=("self", "task_token", "outcome"))
    replace(Backend, "send_task_failure", fail, parameters=("self", "task_token", "error", "cause"))


def _waiting(backend: Any, token: str) -> Any:
    """The endpoint that waits for this token. Raises AWSError if none does, or none any more."""
    from moto.core.exceptions import AWSError

    execution, endpoint = _endpoint(backend, token)
    if endpoint is None:
        raise AWSError("Invalid Token: 'Invalid token'", "InvalidToken")
    if (
        execution.status != "RUNNING"
        or endpoint._notify_event.is_set()
        or endpoint.consumer_error is not None
    ):
        raise AWSError("Task Timed Out: 'Provided task does not exist anymore'", "TaskTimedOut")
    return endpoint


def _endpoint(backend: Any, token: str) -> tuple[Any, Any]:
    for machine in backend.state_machines:
        for execution in machine.executions:
            environment = execution.exec_worker and execution.exec_worker.env
            endpoint = environment and environment.callback_pool_manager.get(token)
            if endpoint is not None:
                return execution, endpoint
    return None, None


def _check_output(outcome: str) -> None:
    from moto.core.exceptions import AWSError

    try:
        json.loads(outcome)
    except ValueError:
        raise AWSError(
            f"Invalid Output: 'the output of the task is no JSON: {outcome[:100]!r}'",
            "InvalidOutput",
        ) from None


def _install_stop() -> None:
    """A stopped execution ends at once, as on AWS.

    moto's goes on until the task that it waits for has an outcome.
    """
    from moto.stepfunctions.parser.backend.execution import Execution

    def stop(self: Any, stop_date: Any, error: str | None, cause: str | None) -> None:
        original(self, stop_date, error, cause)
        environment = self.exec_worker and self.exec_worker.env
        for endpoint in (
            list(environment.callback_pool_manager._pool.values()) if environment else []
        ):
            endpoint.interrupt_all()

    original = replace(Execution, "stop", stop, parameters=("self", "stop_date", "error", "cause"))


def _install_terminal_errors() -> None:
    """What States.ALL does not match, as AWS's guide on handling errors says.

    moto's matches everything.
    """
    from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
        ErrorEqualsDecl,
    )

    def matches(self: Any, env: Any) -> None:
        error = env.stack[-1]
        original(self, env)
        if (
            ErrorEqualsDecl._STATE_ALL_ERROR in self.error_names
            and error is not None
            and error.error_name in TERMINAL_ERRORS
        ):
            env.stack[-1] = False

    original = replace(ErrorEqualsDecl, "_eval_body", matches, parameters=("self", "env"))


def _install_full_history() -> None:
    """An execution fails with its 25,000th event, which is that of its failure.

    No catcher and no other event comes after it.
    """
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager

    history_full = _history_full()
    ends = {
        HistoryEventType.ExecutionFailed,
        HistoryEventType.ExecutionAborted,
        HistoryEventType.ExecutionTimedOut,
        HistoryEventType.ExecutionSucceeded,
    }

    def add(self: Any, context: Any, event_type: Any, *rest: Any, **more: Any) -> int:
        if self._event_id_gen._next_id >= MOST_EVENTS and event_type not in ends:
            raise history_full
        return int(original(self, context, event_type, *rest, **more))

    expected = (
        "self",
        "context",
        "event_type",
        "event_details",
        "timestamp",
        "update_source_event_id",
    )
    original = replace(EventManager, "add_event", add, parameters=expected)


def _history_full() -> type[Exception]:
    """The failure of an execution whose history is full, as moto's interpreter knows failures."""
    from moto.stepfunctions.parser.api import ExecutionFailedEventDetails, HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
        StatesErrorName,
    )
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
        StatesErrorNameType,
    )

    kind = StatesErrorNameType.StatesRuntime
    told = ExecutionFailedEventDetails(
        error=kind.to_name(),
        cause=f"The execution reached the maximum number of history events ({MOST_EVENTS}).",
    )

    class HistoryFull(FailureEventException):  # type: ignore[misc]
        def __init__(self) -> None:
            event = FailureEvent.__new__(FailureEvent)  # its own constructor wants the environment
            event.error_name, event.event_type, event.event_details = (
                StatesErrorName(kind),
                HistoryEventType.ExecutionFailed,
                None,
            )
            super().__init__(event)

        def get_execution_failed_event_details(self) -> Any:
            return told

    return HistoryFull


def _install_lambda_tasks(access: Access, functions: Functions) -> None:
    """Tasks go straight to the worker, under the machine's role.

    moto would make a new boto3 client for every call and ignore the role.
    """
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        state_task_service_lambda as lambda_tasks,
    )

    def invoke(parameters: dict[str, Any], region: str, state_credentials: Any) -> dict[str, Any]:
        name = parameters["FunctionName"]
        try:
            function = functions.get(name)
            access.require_role(
                state_credentials.role_arn, "states", "lambda:InvokeFunction", function.config.arn
            )
        except NoSuchFunction as error:
            raise _client_error("ResourceNotFoundException", 404, str(error)) from None
        except Denied as error:
            raise _client_error("AccessDeniedException", 403, str(error)) from None
        payload = parameters.get("Payload") or b"{}"
        outcome = function.pool.invoke(payload)
        if max(len(payload), len(outcome.result)) > MOST_STATE_BYTES:
            raise TooLarge(name)
        return _response(outcome)

    replace(
        lambda_eval_utils,
        "_invoke_lambda_function",
        invoke,
        parameters=("parameters", "region", "state_credentials"),
    )
    wrap(lambda_tasks.StateTaskServiceLambda, "_from_error", _with_data_limit)


def _response(outcome: Invocation) -> dict[str, Any]:
    """What Lambda's Invoke answers."""
    response: dict[str, Any] = {
        "StatusCode": 200,
        "ExecutedVersion": "$LATEST",
        "Payload": _json(outcome.result),
    }
    if outcome.failed:
        response["FunctionError"] = "Unhandled"
    return response


def _with_data_limit(original: Any) -> Any:
    from moto.stepfunctions.parser.api import HistoryEventType, TaskFailedEventDetails
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEvent
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
        StatesErrorName,
    )
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
        StatesErrorNameType,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    def from_error(self: Any, env: Any, ex: Exception) -> Any:
        if not isinstance(ex, TooLarge):
            return original(self, env, ex)
        kind = StatesErrorNameType.StatesStatesDataLimitExceeded
        told = TaskFailedEventDetails(
            error=kind.to_name(),
            cause=str(ex),
            resource=self._get_sfn_resource(),
            resourceType=self._get_sfn_resource_type(),
        )
        details = EventDetails(taskFailedEventDetails=told)
        return FailureEvent(
            env=env,
            error_name=StatesErrorName(kind),
            event_type=HistoryEventType.TaskFailed,
            event_details=details,
        )

    return from_error


def _json(payload: bytes) -> Any:
    text = payload.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _client_error(code: str, status: int, message: str) -> ClientError:
    """As botocore raises it; the interpreter needs the request id, which moto's own errors lack."""
    metadata = {"HTTPStatusCode": status, "RequestId": str(uuid.uuid4())}
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}, "Invoke"
    )


def report() -> dict[str, Any]:
    """Executions by machine and status, for the status page."""
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    counts: dict[str, dict[str, int]] = {}
    for machine in stepfunctions_parser_backends[ACCOUNT_ID][REGION].state_machines:
        by_status = counts.setdefault(machine.name, {})
        for execution in machine.executions:
            by_status[execution.status] = by_status.get(execution.status, 0) + 1
    return counts
