"""How a job ended whose nodes came with it."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Literal, get_args

from trainyard.domain.job_facts import JobEnd, JobEnded
from trainyard_contracts.events import AttemptEnded


def job_ended(
    job_id: str, run_id: str, attempt: int, how: str, reason: str, at: datetime
) -> JobEnded | None:
    """The end of a job, the same fact for the same job; None for a word that is none of ours."""
    if how not in get_args(JobEnd):
        return None
    return JobEnded.model_validate(
        {
            "id": f"job-ended-{job_id}",
            "at": at,
            "run_id": run_id,
            "attempt": attempt,
            "job_id": job_id,
            "how": how,
            "reason": reason[:2000],
        }
    )


#: By how a job ended, the outcome of its program if that did not tell its end itself.
_OUTCOMES: Mapping[str, Literal["succeeded", "failed", "cancelled"]] = {
    "completed": "succeeded",
    "stopped": "cancelled",
}


def joined(over: JobEnded, told: AttemptEnded | None) -> AttemptEnded:
    """The end of a job by the backend's word and its program's: the program knows better why.

    A program that ended well did so whatever came after it. One that did not may have met the loss
    of another node only, or been stopped: that the backend knows better.
    """
    outcome = _OUTCOMES.get(over.how, "failed")
    if told is not None and told.outcome == "succeeded":
        return told
    if told is not None and over.how == "stopped":
        return told.changed(outcome="cancelled")
    if told is not None:
        return told
    ended_well = outcome == "succeeded"
    return AttemptEnded(
        id=_identity(over.id),
        at=over.at,
        cluster_name=_NO_CLUSTER,
        cluster_arn="",
        run_id=over.run_id,
        attempt=over.attempt,
        job_id=over.job_id,
        outcome=outcome,
        error=None if ended_well else over.reason,
        lasting=over.how == "refused",
        remark="The program itself did not tell its end." if ended_well else "",
    )


#: No node sent such an event.
_NO_CLUSTER = "-"
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _identity(text: str) -> str:
    """An id of an agent's event, always the same for the same text."""
    number = int.from_bytes(sha256(text.encode()).digest()[:17], "big")
    return "".join(_DIGITS[number >> 5 * place & 31] for place in range(26))
