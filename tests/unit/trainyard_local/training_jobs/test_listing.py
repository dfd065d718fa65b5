"""ListTrainingJobs filters, sorts and cuts as AWS does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from trainyard_local.training_jobs import listing
from trainyard_local.training_jobs.job import TrainingJob, WarmPool


@pytest.fixture
def jobs() -> list[TrainingJob]:
    """Three jobs, a second apart: alpha ended, beta has a warm pool, gamma runs."""
    made = []
    for number, name in enumerate(("alpha", "beta", "gamma")):
        job = TrainingJob({"TrainingJobName": name}, f"arn:{name}", lambda _: None)
        job.enter("Starting", "starting")
        job.created_at += timedelta(seconds=number)
        made.append(job)
    made[0].end("Failed", "why")
    made[1].end("Completed")
    made[1].pool(WarmPool("Available"))
    return made


def names(jobs: list[TrainingJob], **params: Any) -> list[str]:
    found = listing.answer(jobs, params)["TrainingJobSummaries"]
    return [summary["TrainingJobName"] for summary in found]


def test_the_newest_job_comes_first_if_nothing_else_is_asked_for(jobs: list[TrainingJob]) -> None:
    assert names(jobs) == ["gamma", "beta", "alpha"]
    assert names(jobs, SortBy="Name", SortOrder="Ascending") == ["alpha", "beta", "gamma"]


def test_jobs_are_told_by_name_status_pool_and_time(jobs: list[TrainingJob]) -> None:
    assert names(jobs, NameContains="m") == ["gamma"]
    assert names(jobs, StatusEquals="Failed") == ["alpha"]
    assert names(jobs, WarmPoolStatusEquals="Available") == ["beta"]
    assert names(jobs, CreationTimeAfter=jobs[1].created_at) == ["gamma"]
    before = jobs[1].created_at.timestamp()
    assert names(jobs, CreationTimeBefore=before) == ["alpha"]


def test_a_page_is_cut_before_its_jobs_are_told_by_their_status(jobs: list[TrainingJob]) -> None:
    params = {"MaxResults": 2, "StatusEquals": "Failed"}
    first = listing.answer(jobs, params)
    assert first["TrainingJobSummaries"] == []
    second = listing.answer(jobs, {**params, "NextToken": first["NextToken"]})
    assert [each["TrainingJobName"] for each in second["TrainingJobSummaries"]] == ["alpha"]
