"""Reads the event that SageMaker sends when the state of a training job changes.

AWS may send several for one change; keys may be null, and texts change.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from pydantic import ValidationError

from trainyard.backends.training_job import states
from trainyard.backends.training_job.deployment import JobDeployment
from trainyard.backends.training_job.refusals import lacks_capacity
from trainyard.backends.training_job.verdicts import verdict
from trainyard.domain.job_ends import job_ended
from trainyard.domain.job_facts import JobStage
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts.events import Fact
from trainyard_contracts.training_job import TRAINING_JOB_STATE_CHANGE, TrainingJobStateChange

SOURCE = "aws.sagemaker"
#: The stage of a job that waits for capacity.
WAITS = "Pending"
#: A message of that stage once there is capacity.
PREPARES = "Preparing"


def read_event(
    envelope: Mapping[str, Any], now: datetime, deployment: JobDeployment
) -> BackendEvent | str | None:
    """As Backend.read_event: None for other events of SageMaker, too."""
    if envelope.get("source") != SOURCE:
        return None
    if envelope.get("detail-type") != TRAINING_JOB_STATE_CHANGE:
        return None
    detail, event_id = envelope.get("detail"), str(envelope.get("id") or "")
    if not isinstance(detail, Mapping) or not event_id:
        return "malformed: no detail or no id"
    try:
        change = TrainingJobStateChange.model_validate(detail)
    except ValidationError as error:
        return f"malformed: {error.error_count()} errors"
    attempt = deployment.attempt_of(change.training_job_name)
    if attempt is None:
        return "not a job of this stack"
    fact = _end(change, *attempt, now) or _stage(change, *attempt, now, event_id)
    return BackendEvent("", change.training_job_arn, fact, run_id=attempt[0])


def _end(change: TrainingJobStateChange, run_id: str, number: int, now: datetime) -> Fact | None:
    secondary, failure = change.secondary_status or "", change.failure_reason
    found = verdict(change.training_job_status, secondary, failure or _last_message(change))
    if found is None:
        return None
    return job_ended(change.training_job_name, run_id, number, *found, now)


def _stage(
    change: TrainingJobStateChange, run_id: str, number: int, now: datetime, event_id: str
) -> Fact:
    """One fact for each stage, however many events tell of it."""
    secondary = change.secondary_status or ""
    passed = len(change.secondary_status_transitions or [])
    message = _last_message(change)
    waits = secondary == WAITS and not message.startswith(PREPARES)
    lacks = waits or lacks_capacity(message)
    which = f"{passed}-{secondary}" if passed else event_id
    if lacks_capacity(message):  # AWS may say so in a stage that the job had before
        which += "-no-capacity"
    return JobStage(
        id=f"job-stage-{change.training_job_name}-{which}",
        at=_began(change, now),
        run_id=run_id,
        attempt=number,
        job_id=change.training_job_name,
        words=states.words(
            change.training_job_status, secondary, message if lacks_capacity(message) else ""
        ),
        lacks=lacks,
    )


def _began(change: TrainingJobStateChange, now: datetime) -> datetime:
    """When the stage began: events of stages that follow each other fast come in any order."""
    transitions = change.secondary_status_transitions or []
    try:
        at = datetime.fromtimestamp(float(transitions[-1]["StartTime"]) / 1000, timezone.utc)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return now
    return min(at, now)


def _last_message(change: TrainingJobStateChange) -> str:
    """AWS's words of the newest transition, which is the last."""
    transitions = change.secondary_status_transitions or []
    return str(transitions[-1].get("StatusMessage") or "") if transitions else ""
