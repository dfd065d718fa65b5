"""Notices as text: SNS takes every one, and a phone shows what matters first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.domain.notice_text import (
    SENTENCE_CHARACTERS,
    SUBJECT_CHARACTERS,
    attributes_of,
    subject_of,
    text_of,
)
from trainyard_contracts.user_events import ToldCluster, ToldRun, UserEvent, UserEventType

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def event(type_: str, message: str = "m", **about: object) -> UserEvent:
    return UserEvent.model_validate(
        {"id": "e", "at": NOW, "type": type_, "message": message, **about}
    )


@pytest.mark.parametrize("type_", get_args(UserEventType))
def test_each_type_says_what_happened(type_: str) -> None:
    subject = subject_of(event(type_, run=ToldRun(id="run-1", name="ddp")))
    assert subject.startswith("ddp ")
    assert type_ not in subject


def test_a_failed_run_says_name_reason_and_where() -> None:
    run = ToldRun(id="run-1", name="ddp", owner="ann", cluster="c-1")
    told = event("run.failed", "The run is Failed:\n  out of memory\x1b[0m", run=run)
    assert text_of(told) == ("ddp failed\nThe run is Failed: out of memory [0m\nrun-1, ann, c-1")
    assert attributes_of(told) == {
        "type": "run.failed", "severity": "error", "run": "run-1", "cluster": "c-1", "owner": "ann",
    }  # fmt: skip


def test_a_cluster_has_the_run_that_it_was_made_for() -> None:
    told = event("cluster.failed", cluster=ToldCluster(name="c-1", run="run-1"))
    assert text_of(told) == "c-1 failed\nm"
    assert attributes_of(told) == {
        "type": "cluster.failed", "severity": "error", "cluster": "c-1", "run": "run-1",
    }  # fmt: skip


def test_a_run_whose_record_cannot_be_read_has_its_id() -> None:
    told = event("run.budget", run=ToldRun(id="run-1"))
    assert subject_of(told) == "run-1 spent budget"
    assert attributes_of(told) == {"type": "run.budget", "severity": "warning", "run": "run-1"}


def test_a_type_of_a_later_version_is_sent_as_it_is() -> None:
    told = event("run.paused", run=ToldRun(id="run-1"))
    assert subject_of(told) == "run-1 run.paused"
    assert attributes_of(told)["severity"] == "info"


@given(st.text(), st.text(), st.text(), st.sampled_from(get_args(UserEventType)))
def test_sns_takes_whatever_people_and_jobs_wrote(
    name: str, owner: str, message: str, type_: str
) -> None:
    told = event(type_, message, run=ToldRun(id="run-1", name=name, owner=owner))
    subject, lines = subject_of(told), text_of(told).split("\n")
    assert 0 < len(subject) <= SUBJECT_CHARACTERS
    assert subject.isprintable()
    assert all(line and line.isprintable() for line in lines)
    assert all(len(line) <= SENTENCE_CHARACTERS or line.startswith("run-1") for line in lines)
    assert all(value and value.isprintable() for value in attributes_of(told).values())
