"""How a training job ended, in the words that recovery decides by.

AWS's own reason is kept as text. Its first word says whose fault it was.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trainyard.backends.training_job import states
from trainyard.backends.training_job.refusals import lacks_capacity
from trainyard.domain.job_facts import JobEnd

#: FailureReason begins with one of these: an error of SageMaker's own or of an instance, one of
#: the request (data, image, role), one of the program.
_OURS_NOT = re.compile(r"\s*(InternalServerError|InternalFailure|ServiceUnavailable)\b", re.I)
_REQUEST = re.compile(r"\s*ClientError\b", re.I)
_LIMITS = frozenset({"MaxRuntimeExceeded", "MaxWaitTimeExceeded"})


class Verdict(NamedTuple):
    """`reason` is '' where there is nothing to say."""

    how: JobEnd
    reason: str


def verdict(status: str, secondary: str, failure: str) -> Verdict | None:
    """None while the job is not over."""
    if status == "Completed":
        return Verdict("completed", "")
    if status == "Stopped":
        how: JobEnd = "out-of-time" if secondary in _LIMITS else "stopped"
        return Verdict(how, states.words(status, secondary))
    if status != "Failed":
        return None
    reason = failure or states.words(status)
    if lacks_capacity(reason):
        return Verdict("no-capacity", reason)
    if _OURS_NOT.match(reason):
        return Verdict("host-lost", reason)
    return Verdict("refused" if _REQUEST.match(reason) else "failed", reason)
