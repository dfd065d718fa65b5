"""The exit codes of all commands; what can go wrong below them is the SDK's."""

from __future__ import annotations

from trainyard_sdk.problems import (
    CONFLICT,
    FAILED,
    INVALID,
    NOT_FOUND,
    OK,
    REFUSED,
    TIMED_OUT,
    UNREACHABLE,
    ApiProblem,
    Conflict,
    InvalidInput,
    NotInTime,
    Refused,
    Unreachable,
)
from trainyard_sdk.problems import SdkError as CliError

USAGE, DETACHED = 2, 130

EXIT_CODES = (
    "Exit codes: 0 done, 1 the run or operation failed, 2 wrong usage, 3 not found, "
    "4 conflict with the state of things, 5 the API cannot be reached, 6 the input is not valid, "
    "7 access refused, 124 not over within --timeout (it goes on), 130 detached with Ctrl-C (it "
    "goes on)."
)

__all__ = [
    "CONFLICT",
    "DETACHED",
    "EXIT_CODES",
    "FAILED",
    "INVALID",
    "NOT_FOUND",
    "OK",
    "REFUSED",
    "TIMED_OUT",
    "UNREACHABLE",
    "USAGE",
    "ApiProblem",
    "CliError",
    "Conflict",
    "InvalidInput",
    "NotInTime",
    "Refused",
    "Unreachable",
]
