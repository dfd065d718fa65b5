"""A training job's statuses follow each other as AWS has them."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard_local.training_jobs.job import TrainingJob, WarmPool


def a_job(**more: Any) -> tuple[TrainingJob, list[tuple[str, str]]]:
    """A job, and what it announces: (status, secondary status)."""
    announced: list[tuple[str, str]] = []
    resources = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    request = {"TrainingJobName": "job", "ResourceConfig": resources, **more}
    job = TrainingJob(request, "arn:job", lambda job: announced.append((job.status, job.secondary)))
    job.enter("Starting", "a")
    return job, announced


def test_another_message_in_the_same_status_keeps_its_start() -> None:
    job, announced = a_job()
    began = job.transitions[0].started_at
    job.enter("Starting", "b")
    assert [(each.status, each.message) for each in job.transitions] == [("Starting", "b")]
    assert job.transitions[0].started_at == began
    assert announced == [("InProgress", "Starting")] * 2


def test_a_status_ends_when_the_next_one_begins() -> None:
    job, _ = a_job()
    job.enter("Training", "b")
    first, second = job.transitions
    assert first.ended_at == second.started_at
    assert second.ended_at is None
    assert not job.ended


def test_a_job_that_is_being_stopped_goes_to_no_other_work() -> None:
    job, announced = a_job()
    job.enter("Stopping", "b")
    job.enter("Downloading", "c")
    job.enter("Uploading", "d")
    job.end("Stopped")
    assert announced[1:] == [
        ("Stopping", "Stopping"),
        ("Stopping", "Uploading"),
        ("Stopped", "Stopped"),
    ]


@pytest.mark.parametrize(
    ("secondary", "status"),
    [
        ("Completed", "Completed"),
        ("Failed", "Failed"),
        ("Stopped", "Stopped"),
        ("MaxRuntimeExceeded", "Stopped"),
        ("MaxWaitTimeExceeded", "Stopped"),
    ],
)
def test_the_last_secondary_status_decides_the_jobs(secondary: str, status: str) -> None:
    job, _ = a_job()
    job.begin()
    job.end(secondary, "why" if secondary == "Failed" else "")
    assert (job.status, job.ended) == (status, True)
    assert job.ended_at is not None
    assert job.transitions[-1].ended_at == job.transitions[-1].started_at


def test_a_job_that_never_had_instances_has_no_end_of_training() -> None:
    job, _ = a_job()
    job.end("Failed", "CapacityError")
    assert (job.started_at, job.ended_at, job.failure_reason) == (None, None, "CapacityError")


def test_a_wish_is_taken_once_and_a_stop_stays() -> None:
    job, _ = a_job()
    job.wishes.interrupt()
    job.wishes.break_down()
    job.wishes.stop()
    assert job.wishes.changed.is_set()
    assert [job.wishes.take_interrupt(), job.wishes.take_interrupt()] == [True, False]
    assert [job.wishes.take_break(), job.wishes.take_break()] == [True, False]
    assert (job.wishes.wants_stop, job.wishes.wants_close) == (True, False)


def test_another_period_changes_what_the_job_says_of_itself() -> None:
    job, _ = a_job()
    before = job.modified_at
    job.pool(WarmPool())
    job.keep_alive(30)
    assert job.keep_alive_seconds == 30
    assert job.modified_at > before
