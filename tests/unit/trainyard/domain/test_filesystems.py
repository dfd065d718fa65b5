"""When a filesystem exports by its schedule, and what the end of an export means."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.support.filesystem_parts import AT, filesystem, filesystem_spec

from trainyard.domain import filesystems
from trainyard.domain.filesystem_records import MOST_LINES, Filesystem
from trainyard.domain.filesystems import TaskEnd

NIGHTLY = filesystem_spec(nightlyExport="02:00Z")


def available(at: datetime = AT, **more: object) -> Filesystem:
    made = filesystem(NIGHTLY, status="Available", association_id="dra-0")
    return made.changed(available_at=at, **more)


@pytest.mark.parametrize(
    ("hours", "due"),
    [(0, False), (13.9, False), (14, True), (20, True), (38, True), (24 * 30, True)],
)
def test_an_export_is_due_from_its_time_of_day_on(hours: float, due: bool) -> None:
    """It was available at noon, so the first time is fourteen hours later."""
    assert filesystems.due(available(), AT + timedelta(hours=hours)) is due


def test_one_export_is_due_for_each_night_however_often_it_is_asked() -> None:
    night = AT + timedelta(hours=14)
    asked = filesystems.asked_for(available(), night, "schedule")
    assert not filesystems.due(asked, night + timedelta(minutes=1))
    over = filesystems.ended(asked, TaskEnd("succeeded", files=1), night + timedelta(minutes=2))
    assert not filesystems.due(over, night + timedelta(hours=23))
    assert filesystems.due(over, night + timedelta(hours=24))


def test_a_failed_export_is_not_repeated_before_the_next_night() -> None:
    night = AT + timedelta(hours=14)
    asked = filesystems.asked_for(available(), night, "schedule")
    over = filesystems.ended(asked, TaskEnd("failed", said="no access"), night)
    assert not filesystems.due(over, night + timedelta(hours=1))
    assert over.problem is not None
    assert "no access" in over.problem.detail


def test_an_export_with_one_failed_file_is_not_verified_whatever_fsx_calls_it() -> None:
    asked = filesystems.asked_for(available(), AT, "person")
    over = filesystems.ended(asked, TaskEnd("succeeded", files=5, failed_files=1), AT)
    assert (over.verified, over.export and over.export.state) == (None, "failed")


def test_a_verified_export_heals_the_problem_of_the_one_before() -> None:
    asked = filesystems.asked_for(available(), AT, "person")
    broken = filesystems.ended(asked, TaskEnd("failed"), AT)
    again = filesystems.ended(
        filesystems.asked_for(broken, AT, "person"), TaskEnd("succeeded", files=0), AT
    )
    assert again.problem is None
    assert again.verified is not None
    assert again.verified.number == 2


def test_what_no_cluster_ever_had_holds_nothing() -> None:
    assert filesystems.only_copy(filesystem(filesystem_spec(repository=None))) is None
    held = filesystem(filesystem_spec(repository=None), available_at=AT)
    assert "nowhere else" in (filesystems.only_copy(held) or "")


def test_the_timeline_keeps_the_newest_lines_with_ids_of_their_own() -> None:
    told = filesystem()
    for number in range(MOST_LINES + 5):
        told = told.told(AT, "Said", str(number))
    assert len(told.lines) == MOST_LINES
    assert len({line.id for line in told.lines}) == MOST_LINES
    assert told.lines[-1].message == str(MOST_LINES + 4)


def test_a_call_has_one_token_for_ever_and_another_for_another_life() -> None:
    one = filesystem()
    assert one.token("s", "create") == one.changed(version=7).token("s", "create")
    others = {
        one.token("s", "create"),
        one.token("s", "link"),
        one.token("other", "create"),
        one.changed(generation=2).token("s", "create"),
    }
    assert len(others) == 4
