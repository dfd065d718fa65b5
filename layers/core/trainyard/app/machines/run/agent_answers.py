"""What the agent answers, and which of its refusals a repetition may mend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainyard.domain.errors import CommandFailed, JobRefused, RetryableError
from trainyard.outside.commands import CommandResult
from trainyard_contracts.commands import INPUT_REFUSED, answer_of

#: Answers of the agent that a repetition does not change.
FINAL_ERRORS = frozenset(
    {
        "bundle-refused",
        "invalid-request",
        "fenced",
        "conflict",
        "secret-refused",
        "restore-refused",
    }
)
#: Those after which no other attempt makes sense; each is the code of the run's problem.
_REFUSALS = frozenset(
    {
        "image-needs-pyxis",
        "image-refused",
        INPUT_REFUSED,
        "backend-rejected",
        "no-capacity",
        "submit-failed",
    }
)


class BundleChanged(RetryableError):
    """The agent read another bundle than we wrote. A repetition writes ours again."""


class CodeChanged(RetryableError):
    """The agent read other code than we copied. It is copied again before the repetition."""


class Fetching(RetryableError):
    """The agent still fetches the code, or a job still ends. A repetition waits for it."""


#: The agent's own sentence says what a person has to correct.
_NAMES_A_FIELD = re.compile(r"(job|inputs|checkpoint|export)\b[\w.]*: ")
#: By the agent's answer, what the repetition is for; of any other error it has no answer.
_REPEATED: Mapping[str, type[RetryableError]] = {
    "bundle-changed": BundleChanged,
    "code-changed": CodeChanged,
    "fetching": Fetching,
}


def agent_answer(result: CommandResult, command: str) -> dict[str, Any]:
    """The agent's JSON answer.

    Raises RetryableError, or CommandFailed when a repetition would not help.
    """
    answer = answer_of(result.stdout)
    if answer is None:
        if result.exit_code == 0:  # nobody knows what was done
            raise RetryableError(
                f"trainyard-agent {command}: its answer is not whole: {result.stdout[:200]!r}"
            )
        answer = {}
    if result.exit_code == 0:
        return answer
    reason = str(
        answer.get("message") or result.stderr.strip()[-500:] or f"exit code {result.exit_code}"
    )
    message = f"trainyard-agent {command}: {reason}"
    if repeated := _REPEATED.get(str(answer.get("error"))):
        raise repeated(message)
    if (code := str(answer.get("error"))) in _REFUSALS:
        raise JobRefused(code, reason)
    if code in FINAL_ERRORS and _NAMES_A_FIELD.match(reason):
        raise JobRefused("submit-failed", reason)
    raise CommandFailed(message) if answer.get("error") in FINAL_ERRORS else RetryableError(message)
