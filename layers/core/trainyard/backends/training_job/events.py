"""Reads the event that SageMaker sends when the state of a training job changes.

AWS may send several for one change; keys may be null, and texts change.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from trainyard.backends.training_job import states
from trainyard.domain.facts import ClusterState
from trainyard.ports import BackendEvent
from trainyard_contracts.training_job import TRAINING_JOB_STATE_CHANGE, TrainingJobStateChange

SOURCE = "aws.sagemaker"


def read_event(envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
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
    fact = ClusterState(
        id=f"aws-{event_id}",
        at=now,
        status=change.secondary_status or change.training_job_status,
        failure_message=_failure(change),
    )
    return BackendEvent(change.training_job_name, change.training_job_arn, fact)


def _failure(change: TrainingJobStateChange) -> str:
    """Why the job ended badly, or why AWS ended it; '' for any other change."""
    status, secondary = change.training_job_status, change.secondary_status or ""
    if status == "Failed":
        return change.failure_reason or _last_message(change) or states.words(status)
    ended = status == "Stopped" and secondary != "Stopped"
    return states.words(status, secondary, _last_message(change)) if ended else ""


def _last_message(change: TrainingJobStateChange) -> str:
    """AWS's words of the newest transition, which is the last."""
    transitions = change.secondary_status_transitions or []
    return str(transitions[-1].get("StatusMessage") or "") if transitions else ""
