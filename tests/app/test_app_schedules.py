"""Schedules as stories: nights that come and go, late, twice, or never."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.memory import Died
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.machines.steps import run_step
from trainyard.app.runs import fire_schedule as fire_module
from trainyard.app.runs.schedules import (
    create_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
)
from trainyard.domain import schedules
from trainyard.domain.errors import ScheduleExists
from trainyard.domain.records import Run
from trainyard.domain.schedule_records import MOST_FIRINGS, Schedule
from trainyard_contracts.schedules import ScheduleSpec

NAME = "nightly"
LOST = "ip-127-0-1-12"


def nightly(**extra: Any) -> ScheduleSpec:
    what = {} if "runs" in extra else {"run": run_spec(nodes=1, cluster={"name": "shared"})}
    when = {} if "rate" in extra else {"cron": "0 2 * * *"}
    return ScheduleSpec.model_validate({"name": NAME, **what, **when, **extra})


def a_chain(*names: str, **extra: Any) -> list[dict[str, Any]]:
    """Each run after the one before it."""
    runs: list[dict[str, Any]] = []
    for name in names:
        follows = {"after": [runs[-1]["name"]]} if runs else {}
        spec = run_spec(nodes=1, cluster={"name": "shared"}).model_dump(
            mode="json", by_alias=True, exclude_defaults=True
        )
        runs.append({**spec, "name": name, **follows, **extra})
    return runs


def with_schedule(**extra: Any) -> Story:
    story = Story()
    make_cluster(story)
    create_schedule(story.world.ports, nightly(**extra))
    return story


def stored(story: Story) -> Schedule:
    return story.world.schedules.stored[NAME]


def runs(story: Story) -> list[Run]:
    return list(story.world.runs.stored.values())


def until(story: Story, moment: datetime) -> None:
    story.world.clock.tick((moment - story.world.clock.now()).total_seconds())
    story.rest()


def next_night(story: Story) -> datetime:
    """Time passes until the schedule is due."""
    due = schedules.due_after(stored(story), max(story.world.clock.now(), stored(story).since))
    assert due is not None
    until(story, due)
    return due


def fired(story: Story, at: datetime, generation: int = 1) -> dict[str, Any]:
    """As EventBridge Scheduler calls the function."""
    event = {"step": "fire-schedule", "scheduleName": NAME, "generation": generation,
             "scheduledAt": f"{at:%Y-%m-%dT%H:%M:%SZ}"}  # fmt: skip
    answer = run_step(story.world.ports, event)
    story.rest()
    return answer


def test_three_nights_each_with_a_run_one_of_them_with_a_lost_node() -> None:
    own = run_spec(cluster={"spec": cluster_spec(workers=2, spares=1)})
    story = Story()
    create_schedule(story.world.ports, nightly(run=own))
    for night in range(3):
        story.run_id = fired(story, next_night(story))["runId"]
        story.ready()
        story.training()
        if night == 1:
            story.checkpoint(10)
            story.lose(LOST)
            story.training("ip-127-0-1-13", "ip-127-0-1-14", step=11)
        story.end(lastStep=200)
    assert [run.status for run in runs(story)] == ["Succeeded"] * 3
    assert [len(run.attempts) for run in runs(story)] == [1, 2, 1]
    assert [one.outcome for one in stored(story).firings] == ["submitted"] * 3
    assert story.world.backend.clusters == {}


def test_a_time_that_is_told_twice_or_much_later_again_has_one_run() -> None:
    story = with_schedule()
    at = next_night(story)
    first = fired(story, at)
    story.cancel(first["runId"])
    story.rest()
    again = fired(story, at)
    fired(story, next_night(story))
    assert again["runId"] == first["runId"]
    assert fired(story, at)["runId"] == first["runId"]
    assert len(runs(story)) == 2


@pytest.mark.parametrize("line", range(1, 30))
def test_a_firing_that_dies_anywhere_and_is_repeated_has_one_run(line: int) -> None:
    story = with_schedule()
    at = next_night(story)
    story.world.fuse.arm(line)
    try:
        fired(story, at)
    except BaseException:  # noqa: BLE001 - the process died
        pass
    story.world.fuse.arm(None)
    fired(story, at)
    story.pass_time(61)
    story.sweep()
    assert [run.status for run in runs(story)] == ["Submitting"]
    assert [one.outcome for one in stored(story).firings] == ["submitted"]


def test_a_night_that_nobody_told_is_noticed_by_the_sweep_and_told_late_it_is_the_same_run() -> (
    None
):
    story = with_schedule()
    at = next_night(story)
    story.pass_time(240)
    story.sweep()
    assert runs(story) == []
    story.pass_time(120)
    done = story.sweep()
    assert "schedule fired late" in [one.action for one in done]
    (run,) = runs(story)
    assert fired(story, at)["runId"] == run.id
    assert stored(story).firings[0].late


def test_of_several_missed_nights_the_newest_has_a_run() -> None:
    story = with_schedule()
    next_night(story)
    story.pass_time(3 * 86400 + 600)
    story.sweep()
    story.sweep()
    assert len(runs(story)) == 1
    assert len(stored(story).firings) == 1


def statuses(story: Story) -> list[str]:
    return [run.status for run in sorted(runs(story), key=lambda run: run.created_at)]


def through(story: Story, run_id: str) -> None:
    """One run of a chain trains and ends well."""
    story.run_id = run_id
    story.training()
    story.end(lastStep=20)


def test_each_night_has_a_chain_whose_runs_begin_after_each_other() -> None:
    story = with_schedule(runs=a_chain("preprocess", "train", "evaluate"))
    nights = []
    for _ in range(3):
        fired(story, next_night(story))
        night = stored(story).firings[-1].run_ids
        for at, run_id in enumerate(night):
            there = [story.world.runs.stored[one].status for one in night]
            assert there == ["Succeeded"] * at + ["Submitting"] + ["Waiting"] * (2 - at)
            through(story, run_id)
        nights.append(night)
    assert statuses(story) == ["Succeeded"] * 9
    assert len({run_id for night in nights for run_id in night}) == 9
    for first, second, third in nights:
        follows = [story.world.runs.stored[one].spec for one in (second, third)]
        assert [spec.after for spec in follows] == [[first], [second]]


@pytest.mark.parametrize("line", range(1, 40))
def test_a_chain_whose_firing_dies_anywhere_and_is_repeated_is_there_once(line: int) -> None:
    story = with_schedule(runs=a_chain("preprocess", "train", "evaluate"))
    at = next_night(story)
    story.world.fuse.arm(line)
    try:
        fired(story, at)
    except BaseException:  # noqa: BLE001 - the process died
        pass
    story.world.fuse.arm(None)
    fired(story, at)
    story.pass_time(61)
    story.sweep()
    assert sorted(run.status for run in runs(story)) == ["Submitting", "Waiting", "Waiting"]
    (firing,) = stored(story).firings
    assert sorted(firing.run_ids) == sorted(run.id for run in runs(story))


def test_a_chain_whose_first_run_fails_ends_and_the_next_night_has_another() -> None:
    story = with_schedule(runs=a_chain("preprocess", "train", "evaluate"))
    story.run_id = fired(story, next_night(story))["runId"]
    story.training()
    story.cancel(story.run_id)
    story.rest()
    assert sorted(statuses(story)) == ["Cancelled", "Failed", "Failed"]
    assert fired(story, next_night(story))["outcome"] == "submitted"


def test_a_chain_is_still_there_while_its_last_run_trains() -> None:
    story = with_schedule(runs=a_chain("preprocess", "train"))
    through(story, fired(story, next_night(story))["runId"])
    last = stored(story).firings[-1].run_ids[-1]
    answer = fired(story, next_night(story))
    assert answer["reason"] == f"Run {last} of an earlier time is Submitting."


def test_overlap_queue_lets_a_chain_wait_for_all_of_the_one_before() -> None:
    story = with_schedule(runs=a_chain("preprocess", "train"), overlap="queue")
    first = fired(story, next_night(story))["runId"]
    second = fired(story, next_night(story))["runId"]
    assert fired(story, next_night(story))["outcome"] == "skipped"
    through(story, first)
    assert story.world.runs.stored[second].status == "Waiting"
    through(story, stored(story).firings[0].run_ids[-1])
    assert story.world.runs.stored[second].status == "Submitting"


def test_overlap_replace_cancels_all_of_the_chain_before() -> None:
    story = with_schedule(runs=a_chain("preprocess", "train"), overlap="replace")
    story.run_id = fired(story, next_night(story))["runId"]
    story.training()
    second = fired(story, next_night(story))["runId"]
    before = stored(story).firings[0].run_ids
    assert [story.world.runs.stored[one].status for one in before] == ["Cancelled"] * 2
    assert story.world.runs.stored[second].status == "Submitting"


def test_a_chain_of_which_one_run_is_refused_leaves_none_that_goes_on() -> None:
    story = with_schedule(runs=a_chain("preprocess", "train"))
    cluster = story.world.clusters.stored["shared"]
    at = next_night(story)
    schedule = stored(story)
    half = schedule.changed(spec=schedule.spec.changed(runs=schedule.spec.runs[:1]))
    story.world.schedules.stored[NAME] = half
    fired(story, at)  # a process that died after the first run
    story.world.schedules.stored[NAME] = schedule
    story.world.clusters.stored["shared"] = cluster.changed(status="Deleting")
    assert fired(story, at)["outcome"] == "refused"
    story.rest()
    assert statuses(story) == ["Cancelled"]
    (left,) = story.world.runs.stored.values()
    assert left.reason == (
        "Cancelled: another run of the same time of schedule 'nightly' was refused."
    )


def test_overlap_skip_leaves_a_night_out_while_the_run_before_still_trains() -> None:
    story = with_schedule()
    first = fired(story, next_night(story))["runId"]
    answer = fired(story, next_night(story))
    assert answer["outcome"] == "skipped"
    assert answer["reason"] == f"Run {first} of an earlier time is Submitting."
    assert len(runs(story)) == 1


def test_overlap_queue_lets_one_run_wait_and_no_second_one() -> None:
    story = with_schedule(overlap="queue")
    first = fired(story, next_night(story))["runId"]
    second = fired(story, next_night(story))["runId"]
    assert story.world.runs.stored[second].status == "Waiting"
    assert fired(story, next_night(story))["outcome"] == "skipped"
    story.run_id = first
    story.training()
    story.end(lastStep=20)
    assert story.world.runs.stored[second].status == "Submitting"


def test_overlap_replace_cancels_the_run_before_and_begins_when_that_has_ended() -> None:
    story = with_schedule(overlap="replace")
    story.run_id = fired(story, next_night(story))["runId"]
    story.training()
    second = fired(story, next_night(story))["runId"]
    assert story.run.status == "Cancelled"
    assert story.run.reason == "Cancelled: schedule 'nightly' is due again and begins another run."
    lines = story.world.runs.timeline(story.run_id, limit=100, token=None).items
    asked = [line.message for line in lines if line.type == "CancelRequested"]
    assert asked == [
        "The run is to be cancelled: schedule 'nightly' is due again and begins another run."
    ]
    assert story.world.runs.stored[second].status == "Submitting"


def test_a_paused_schedule_submits_nothing_and_a_resumed_one_begins_with_its_next_time() -> None:
    story = with_schedule()
    pause_schedule(story.world.ports, NAME)
    assert story.world.scheduler.there[NAME].status == "Paused"
    at = next_night(story)
    assert fired(story, at)["outcome"] == "skipped"
    story.pass_time(3600)
    story.sweep()
    resume_schedule(story.world.ports, NAME)
    story.sweep()
    assert runs(story) == []
    assert fired(story, next_night(story))["outcome"] == "submitted"


def test_a_deleted_schedule_is_gone_and_its_last_event_finds_nothing() -> None:
    story = with_schedule()
    delete_schedule(story.world.ports, NAME)
    delete_schedule(story.world.ports, NAME)
    assert story.world.scheduler.there == {}
    at = story.world.clock.now() + timedelta(days=1)
    assert fired(story, at)["outcome"] == "skipped"
    create_schedule(story.world.ports, nightly())
    assert fired(story, at, generation=1)["outcome"] == "skipped"
    assert fired(story, at, generation=2)["outcome"] == "submitted"


def test_a_run_that_is_refused_at_its_time_says_why_and_the_next_night_is_tried() -> None:
    story = with_schedule()
    cluster = story.world.clusters.stored["shared"]
    story.world.clusters.stored["shared"] = cluster.changed(status="Deleting")
    answer = fired(story, next_night(story))
    assert answer["outcome"] == "refused"
    assert "Cluster 'shared' is Deleting" in answer["reason"]
    story.world.clusters.stored["shared"] = cluster
    assert fired(story, next_night(story))["outcome"] == "submitted"


def test_a_schedule_whose_creation_died_is_placed_by_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    make_cluster(story)
    from trainyard.app.runs import schedules as use_case

    with monkeypatch.context() as died:
        died.setattr(use_case, "placed", lambda ports, schedule: schedule)
        create_schedule(story.world.ports, nightly())
    assert story.world.scheduler.there == {}
    story.sweep()
    assert story.world.scheduler.there[NAME].status == "Active"


def test_the_same_schedule_again_is_the_same_and_another_of_its_name_is_refused() -> None:
    story = with_schedule()
    assert create_schedule(story.world.ports, nightly()).generation == 1
    with pytest.raises(ScheduleExists):
        create_schedule(story.world.ports, nightly(overlap="queue"))


def test_a_rate_is_counted_from_its_creation() -> None:
    story = with_schedule(rate="6 hours")
    created = stored(story).created_at.replace(second=0, microsecond=0)
    times = list(schedules.next_times(stored(story), story.world.clock.now(), 2))
    assert times == [created + timedelta(hours=6), created + timedelta(hours=12)]
    assert times[0].tzinfo == timezone.utc


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("line", range(1, 16))
def test_no_schedule_is_left_wherever_its_creation_and_its_deletion_die(
    line: int, after: bool
) -> None:
    for victim in (create_schedule, delete_schedule):
        story = Story()
        make_cluster(story)
        ports = story.world.ports
        if victim is delete_schedule:
            create_schedule(ports, nightly())
        story.world.fuse.arm(line, after=after)
        try:
            victim(ports, nightly() if victim is create_schedule else NAME)  # type: ignore[operator]
        except Died:
            pass
        story.world.fuse.arm(None)
        if NAME not in story.world.schedules.stored:
            assert story.world.scheduler.there == {}
            continue
        delete_schedule(ports, NAME)
        assert story.world.scheduler.there == {}
        story.sweep()
        story.pass_time(1300)
        story.sweep()
        assert story.world.schedules.active() == []


def test_a_process_that_places_a_schedule_after_its_deletion_and_dies_leaves_nothing() -> None:
    story = with_schedule()
    late = stored(story)
    delete_schedule(story.world.ports, NAME)
    story.world.scheduler.place(late, None)
    story.pass_time(1300)
    story.sweep()
    assert story.world.scheduler.there == {}
    assert story.world.schedules.active() == []


def test_a_schedule_that_was_left_is_removed_once_it_fires() -> None:
    story = with_schedule()
    late = stored(story)
    delete_schedule(story.world.ports, NAME)
    story.pass_time(1300)
    story.sweep()
    story.world.scheduler.place(late, None)
    assert fired(story, next_night_of(late))["outcome"] == "skipped"
    story.sweep()
    assert story.world.scheduler.there == {}


def next_night_of(schedule: Schedule) -> datetime:
    due = schedules.due_after(schedule, schedule.since)
    assert due is not None
    return due


def test_a_schedule_that_is_missing_at_its_service_is_placed_again_when_it_is_late() -> None:
    story = with_schedule()
    story.world.scheduler.remove(NAME)
    next_night(story)
    story.pass_time(360)
    story.sweep()
    assert len(runs(story)) == 1
    assert NAME in story.world.scheduler.there


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("line", range(1, 30))
def test_a_night_whose_firing_died_is_known_to_the_next_one(line: int, after: bool) -> None:
    story = with_schedule()
    story.world.fuse.arm(line, after=after)
    try:
        fired(story, next_night(story))
    except Died:
        pass
    story.world.fuse.arm(None)
    story.rest()
    fired(story, next_night(story))
    story.sweep()
    assert len([run for run in runs(story) if not run.terminal]) == 1
    story.pass_time(61)
    story.sweep()
    assert [run.status for run in runs(story)] == ["Submitting"]


def test_a_queued_run_that_is_cancelled_does_not_hide_the_one_that_trains() -> None:
    story = with_schedule(overlap="queue")
    first = fired(story, next_night(story))["runId"]
    second = fired(story, next_night(story))["runId"]
    story.cancel(second)
    story.rest()
    third = fired(story, next_night(story))["runId"]
    assert story.world.runs.stored[third].status == "Waiting"
    story.run_id = first
    story.training()
    story.end(lastStep=20)
    assert story.world.runs.stored[third].status == "Submitting"


def test_replace_waits_for_each_run_that_is_still_being_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = with_schedule(overlap="replace", cron="*/5 * * * *")
    story.run_id = first = fired(story, next_night(story))["runId"]
    story.training()
    monkeypatch.setattr(fire_module, "cancel_run", lambda ports, run_id, reason: None)
    second = fired(story, next_night(story))["runId"]
    third = fired(story, next_night(story))["runId"]
    assert story.world.runs.stored[third].spec.after == [first, second]
    assert story.world.runs.stored[third].status == "Waiting"


def test_a_run_that_goes_on_is_known_after_more_skipped_nights_than_are_kept() -> None:
    story = with_schedule(cron="*/5 * * * *")
    first = fired(story, next_night(story))["runId"]
    for _ in range(MOST_FIRINGS + 2):
        assert fired(story, next_night(story))["outcome"] == "skipped"
    assert first not in [one.run_id for one in stored(story).firings]
    assert len(runs(story)) == 1
