"""Arrays and schedules of an owner who left: nothing begins until they are somebody else's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.app.test_app_arrays import array_spec, end_member, now
from tests.app.test_app_schedules import fired, next_night, nightly, stored
from tests.support.story import Story, make_cluster

from trainyard.app.people.ownership import given_to
from trainyard.app.runs.advance_array import cancel_array
from trainyard.app.runs.schedules import create_schedule
from trainyard.app.runs.submit_array import submit_array
from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.domain.people import RolesOfPeople
from trainyard_contracts.people import Person

LEAD = "arn:aws:iam::111122223333:user/lead"


def person(name: str) -> Person:
    arn = f"arn:aws:iam::111122223333:user/{name}"
    return Person(id=f"AIDA{name.upper()}", arn=arn, account="111122223333", name=name, kind="user")


ANN, BOB = person("ann"), person("bob")


def members_are(story: Story, *members: Person, viewers: tuple[Person, ...] = ()) -> None:
    """As the stack's parameters are changed."""
    roles = RolesOfPeople([LEAD], [one.arn for one in members], [one.arn for one in viewers])
    ports = story.world.ports
    story.world.ports = replace(ports, config=replace(ports.config, roles=roles))


def of_ann() -> Story:
    story = Story()
    make_cluster(story)
    members_are(story, ANN, BOB)
    return story


def refusals(story: Story, what: str) -> list[AuditEntry]:
    since = story.world.clock.now() - timedelta(days=30)
    found = story.world.ports.audit.list(AuditQuery(since, what=what), limit=50, token=None)
    return [one for one in found.items if one.outcome == "refused"]


@pytest.mark.parametrize(
    ("viewers", "said"),
    [((), "ann (arn:aws:iam::111122223333:user/ann) has no role"), ((ANN,), "is a viewer")],
)
def test_a_schedule_of_one_who_left_says_so_each_night_until_it_is_given_to_another(
    viewers: tuple[Person, ...], said: str
) -> None:
    story = of_ann()
    create_schedule(story.world.ports, nightly(), by=ANN)
    story.cancel(fired(story, next_night(story))["runId"])
    story.rest()
    members_are(story, BOB, viewers=viewers)
    at = next_night(story)
    for _ in range(2):
        fired(story, at)
    firing = stored(story).firings[-1]
    assert (firing.outcome, firing.runs) == ("refused", [])
    assert said in firing.reason
    assert "trainyard schedule transfer nightly --to ARN" in firing.reason
    (told,) = refusals(story, "schedule.fire")
    assert (told.who, told.subject) == (None, "schedule/nightly")
    assert said in told.detail
    assert len(story.world.runs.stored) == 1
    given_to(story.world.ports, stored(story), BOB, by=person("lead"))
    fired(story, next_night(story))
    run = list(story.world.runs.stored.values())[-1]
    assert run.created_by == BOB
    assert [one.outcome for one in stored(story).firings] == ["submitted", "refused", "submitted"]


def test_a_night_that_replaces_the_run_before_cancels_nothing_if_its_owner_left() -> None:
    story = of_ann()
    create_schedule(story.world.ports, nightly(overlap="replace"), by=ANN)
    run_id = fired(story, next_night(story))["runId"]
    members_are(story, BOB)
    fired(story, next_night(story))
    assert not story.world.runs.stored[run_id].terminal
    assert stored(story).firings[-1].outcome == "refused"


def test_a_night_of_a_higher_priority_needs_an_owner_who_may_still_give_it() -> None:
    story = of_ann()
    spec = nightly()
    assert spec.run is not None
    first = spec.changed(run=spec.run.changed(priority=5))
    create_schedule(story.world.ports, first, by=ANN)
    fired(story, next_night(story))
    assert "above 0 is for admins" in stored(story).firings[-1].reason


def test_what_an_older_version_made_has_no_owner_and_goes_on() -> None:
    story = of_ann()
    create_schedule(story.world.ports, nightly())
    members_are(story)
    fired(story, next_night(story))
    assert stored(story).firings[-1].outcome == "submitted"


def with_array(story: Story, **given: Any) -> str:
    array = submit_array(story.world.ports, array_spec(**given), by=ANN)
    story.rest()
    return array.id


def test_the_next_member_of_one_who_left_waits_until_the_array_is_somebody_elses() -> None:
    story = of_ann()
    array = story.world.arrays.stored[with_array(story, total=3, parallel=1)]
    members_are(story, BOB)
    end_member(story, array, 0)
    for _ in range(3):
        story.sweep()
    waits = now(story, array)
    assert (waits.status, waits.succeeded, waits.begun) == ("Running", 1, 1)
    assert waits.reason.startswith("Waiting: Its owner may not submit it any more: ann (")
    assert f"trainyard array transfer {array.id} --to ARN" in waits.reason
    (told,) = refusals(story, "array.begin")
    assert told.subject == f"array/{array.id}"
    given_to(story.world.ports, waits, BOB, by=person("lead"))
    story.sweep()
    for index in (1, 2):
        end_member(story, array, index)
    ended = now(story, array)
    assert (ended.status, ended.reason) == ("Succeeded", "3 of 3 members succeeded.")
    owners = [run.created_by for run in story.world.runs.stored.values()]
    assert owners == [ANN, BOB, BOB]


@pytest.mark.parametrize("line", range(1, 40, 2))
def test_an_array_whose_owner_leaves_wherever_its_submission_dies_is_whole_once_it_is_anothers(
    line: int,
) -> None:
    story = of_ann()
    story.world.fuse.arm(line)
    try:
        submit_array(story.world.ports, array_spec(total=2, parallel=2), by=ANN)
    except BaseException:  # noqa: BLE001 - the process died
        pass
    story.world.fuse.arm(None)
    if not story.world.arrays.stored:
        return
    (array,) = story.world.arrays.stored.values()
    members_are(story, BOB)
    story.sweep()
    there = len(story.world.runs.stored)
    given_to(story.world.ports, now(story, array), BOB, by=person("lead"))
    story.rest()
    story.pass_time(61)
    story.sweep()
    owners = [run.created_by for run in story.world.runs.stored.values()]
    assert owners == [ANN] * there + [BOB] * (2 - there)
    for index in range(2):
        end_member(story, array, index)
    assert now(story, array).succeeded == 2


def test_an_array_that_waits_for_an_owner_is_cancelled_as_ever() -> None:
    story = of_ann()
    array = story.world.arrays.stored[with_array(story, total=3, parallel=1)]
    members_are(story)
    end_member(story, array, 0)
    cancel_array(story.world.ports, array.id, by=person("lead"), reason="ann left")
    story.sweep()
    ended = now(story, array)
    assert ended.status == "Cancelled"
    assert ended.reason.startswith("lead cancelled the array: ann left")
