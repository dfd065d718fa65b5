"""People hear before an idle cluster is deleted, once for each time without use."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.memory import Died
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.clusters.keep_cluster import keep_cluster
from trainyard.app.sweep.sweep import sweep
from trainyard.domain.errors import WrongState
from trainyard_contracts.user_events import UserEvent

LIMIT = 1800


@pytest.fixture
def story() -> Story:
    story = Story()
    make_cluster(story)
    told(story)
    return story


def told(story: Story) -> list[UserEvent]:
    """What people heard of clusters that are idle; a sweep tells what the one before decided."""
    story.sweep()
    story.sweep()
    return [event for event in story.world.notices.events if event.type == "cluster.idle"]


def rest(story: Story, seconds: float) -> None:
    story.world.clock.tick(seconds)
    story.beat("shared")


def test_people_hear_at_half_of_the_limit_and_the_cluster_goes_at_its_end(story: Story) -> None:
    rest(story, LIMIT / 2 - 60)
    assert told(story) == []
    rest(story, 60)
    (event,) = told(story)
    assert event.cluster is not None
    assert event.cluster.name == "shared"
    end = story.world.clusters.get("shared").idle_since.replace(microsecond=0)
    assert "trainyard cluster keep shared" in event.message
    assert f"is deleted after {end.replace(minute=end.minute + 30)}"[:-6] in event.message
    rest(story, 600)
    assert len(told(story)) == 1
    rest(story, LIMIT / 2)
    assert [done.action for done in story.sweep()] == ["teardown"]
    assert len(told(story)) == 1


def test_a_cluster_that_is_kept_stays_and_is_warned_of_again(story: Story) -> None:
    rest(story, LIMIT / 2)
    assert len(told(story)) == 1
    keep_cluster(story.world.ports, "shared")
    rest(story, LIMIT / 2 - 1)
    assert len(told(story)) == 1
    assert story.world.clusters.get("shared").status == "Ready"
    rest(story, 2)
    first, second = told(story)
    assert first.id != second.id


def test_nobody_is_warned_of_a_cluster_that_a_run_or_a_person_uses(story: Story) -> None:
    rest(story, LIMIT / 2 - 60)
    story.submit(run_spec(cluster={"name": "shared"}))
    story.rest()
    rest(story, LIMIT)
    assert told(story) == []
    story.end()
    rest(story, LIMIT / 2 + 1)
    story.beat("shared", otherJobs={"running": 1, "queued": 0, "users": ["alice"]})
    assert told(story) == []


def test_a_use_between_the_list_and_the_word_is_seen(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest(story, LIMIT / 2 + 1)
    older = story.world.clusters.active()
    story.world.clusters.touch("shared", used_at=story.world.clock.now())
    monkeypatch.setattr(story.world.clusters, "active", lambda: older)
    assert told(story) == []


@pytest.mark.parametrize("after", [False, True])
def test_two_sweeps_and_one_that_dies_anywhere_tell_it_once(after: bool) -> None:
    deaths, call = 0, 1
    while True:
        story = Story()
        make_cluster(story)
        told(story)
        rest(story, LIMIT / 2)
        story.world.fuse.arm(call, after=after)
        try:
            sweep(story.world.ports)
            died = False
        except Died:
            died = True
        story.world.fuse.arm(None)
        heard = Counter(event.id for event in told(story))
        assert len(heard) == 1
        assert not story.world.notices.unsent(10)
        if not died:
            break
        deaths, call = deaths + 1, call + 1
    assert deaths > 5


def test_what_is_gone_or_going_is_not_kept(story: Story) -> None:
    cluster = story.world.clusters.get("shared")
    story.world.clusters.put(cluster.changed(status="Deleting"))
    with pytest.raises(WrongState, match="is Deleting"):
        keep_cluster(story.world.ports, "shared")
