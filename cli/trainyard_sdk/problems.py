"""What can go wrong when the API is called, and the exit status of a command that meets it.

Programs branch on classes and codes, people read the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OK, FAILED, NOT_FOUND, CONFLICT, UNREACHABLE, INVALID, REFUSED = 0, 1, 3, 4, 5, 6, 7
#: As of the program timeout.
TIMED_OUT = 124


class SdkError(Exception):
    """An error for people: what is wrong, what to do next, and the exit code."""

    exit_code = FAILED

    def __init__(
        self, title: str, detail: str = "", next_step: str = "", *, code: str = ""
    ) -> None:
        super().__init__(f"{title}: {detail}" if detail else title)
        self.title, self.detail, self.next_step, self.code = title, detail, next_step, code

    @property
    def next_step(self) -> str:
        """What to do about it; a traceback shows it, too."""
        return self._next_step

    @next_step.setter
    def next_step(self, words: str) -> None:
        self._next_step = words
        self.__notes__ = [f"Next: {words}"] if words else []

    def advise(self, words: str) -> None:
        """Say that, too."""
        if words not in self.next_step:
            self.next_step = f"{self.next_step.rstrip('. ')}. {words}".removeprefix(". ")

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "title": self.title,
            "detail": self.detail,
            "nextStep": self.next_step,
        }


class Unreachable(SdkError):
    """No answer from the API, or nothing says where it is."""

    exit_code = UNREACHABLE


class InvalidInput(SdkError):
    """A file or argument is wrong before anything was sent."""

    exit_code = INVALID


class Conflict(SdkError):
    """It conflicts with what is there already, such as a second local cloud."""

    exit_code = CONFLICT


class Refused(SdkError):
    """No credentials, or none that can be used."""

    exit_code = REFUSED


class NotInTime(SdkError):
    """What was waited for did not come in the time that was given; it goes on."""

    exit_code = TIMED_OUT


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a run was waited for. The run goes on; the words say how to come back."""


_WHO = (
    "Check the AWS credentials (aws sts get-caller-identity) and that their policy allows "
    "execute-api:Invoke."
)
_LOG_IN = "Log in again: aws sso login, or get new keys; what was submitted goes on meanwhile."


class ApiProblem(SdkError):
    """An answer of the API that is not a success (RFC 9457). `code` is closed; branch on it."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        title = str(problem.get("title") or problem.get("message") or f"HTTP status {status}")
        super().__init__(
            title,
            str(problem.get("detail", "")),
            str(problem.get("nextStep", "")),
            code=str(problem.get("code", "")),
        )
        self.status = status
        #: Names the request in the API's log.
        self.instance = str(problem.get("instance") or "")
        self.errors: list[Mapping[str, str]] = list(problem.get("errors") or [])
        if status in (401, 403) and not self.next_step:
            self.next_step = _LOG_IN if "expired" in str(self).lower() else _WHO

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        # 405: an id with a colon reads as an action of another one, which no resource has.
        by_status = {
            **dict.fromkeys((400, 413, 415, 422), INVALID),
            **dict.fromkeys((401, 403), REFUSED),
            **dict.fromkeys((404, 405), NOT_FOUND),
            409: CONFLICT,
            412: CONFLICT,
        }
        return by_status.get(self.status, FAILED)

    def as_json(self) -> dict[str, Any]:
        named = {"instance": self.instance} if self.instance else {}
        return {**super().as_json(), "status": self.status, **named, "errors": self.errors}
