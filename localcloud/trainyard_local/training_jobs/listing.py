"""Which training jobs ListTrainingJobs lists, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from trainyard_local.sagemaker.paging import page
from trainyard_local.training_jobs.job import TrainingJob
from trainyard_local.training_jobs.views import summary

_KEYS: dict[str, Callable[[TrainingJob], Any]] = {
    "Name": lambda job: job.name,
    "CreationTime": lambda job: job.created_at,
    "Status": lambda job: job.status,
}
#: By the parameter, which time of the job it bounds, and whether from below.
_TIMES = {
    "CreationTimeAfter": ("created_at", True),
    "CreationTimeBefore": ("created_at", False),
    "LastModifiedTimeAfter": ("modified_at", True),
    "LastModifiedTimeBefore": ("modified_at", False),
}


def answer(jobs: Iterable[TrainingJob], params: Mapping[str, Any]) -> dict[str, Any]:
    """ListTrainingJobs' answer.

    The page is cut before jobs of other statuses are left out, as AWS has it.
    """
    found = [job for job in jobs if _within(job, params)]
    found.sort(
        key=_KEYS[params.get("SortBy", "CreationTime")],
        reverse=params.get("SortOrder", "Descending") == "Descending",
    )
    part, token = page(found, params)
    return {"TrainingJobSummaries": [summary(job) for job in part if _is(job, params)]} | token


def _within(job: TrainingJob, params: Mapping[str, Any]) -> bool:
    if params.get("NameContains", "") not in job.name:
        return False
    for name, (attribute, after) in _TIMES.items():
        if name in params:
            at, bound = getattr(job, attribute), _moment(params[name])
            if (at <= bound) if after else (at >= bound):
                return False
    return True


def _moment(given: Any) -> datetime:
    """A timestamp as the protocol sends it, in seconds, or as moto has read it."""
    if isinstance(given, datetime):
        return given if given.tzinfo else given.replace(tzinfo=timezone.utc)
    return datetime.fromtimestamp(float(given), timezone.utc)


def _is(job: TrainingJob, params: Mapping[str, Any]) -> bool:
    pool = job.warm_pool.status if job.warm_pool else ""
    wanted = (params.get("StatusEquals", job.status), params.get("WarmPoolStatusEquals", pool))
    return wanted == (job.status, pool)
