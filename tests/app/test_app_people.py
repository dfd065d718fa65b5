"""A cluster that runs people's jobs is not deleted, and the answer names whose jobs they are."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.story import Story, in_training, make_cluster

from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.domain.errors import ClusterInUse

MINE: dict[str, Any] = {"running": 1, "queued": 0, "users": ["alice"]}
WAITS: dict[str, Any] = {"running": 0, "queued": 2, "users": ["alice", "bob"]}
NOBODYS: dict[str, Any] = {"running": 0, "queued": 0, "users": []}


def beat(story: Story, jobs: dict[str, Any] | None, name: str = "shared") -> None:
    story.beat(name, **({"otherJobs": jobs} if jobs is not None else {}))


def shared() -> Story:
    story = Story()
    make_cluster(story)
    return story


def swept(story: Story) -> list[tuple[str, str]]:
    return [(found.action, found.reason) for found in story.sweep()]


@pytest.mark.parametrize(
    ("jobs", "words"), [(MINE, "1 running job of alice"), (WAITS, "2 queued jobs of alice, bob")]
)
def test_an_idle_cluster_is_not_deleted_under_a_persons_job(
    jobs: dict[str, Any], words: str
) -> None:
    story = shared()
    story.world.clock.tick(1801)
    beat(story, jobs)
    assert [action for action, _ in swept(story)] in ([], ["kept"])
    with pytest.raises(ClusterInUse, match=words) as refused:
        delete_cluster(story.world.ports, "shared")
    assert "--force" in refused.value.next_step
    assert story.world.clusters.stored["shared"].status == "Ready"


def test_the_idle_time_begins_when_a_persons_last_job_has_ended() -> None:
    story = shared()
    story.world.clock.tick(1700)
    beat(story, MINE)
    story.world.clock.tick(1700)
    beat(story, NOBODYS)
    assert swept(story) == []
    story.world.clock.tick(101)
    beat(story, NOBODYS)
    assert [action for action, _ in swept(story)] == ["teardown"]


def test_jobs_that_only_wait_keep_a_cluster_for_a_day_and_no_longer() -> None:
    story = shared()
    story.world.clock.tick(86300)
    beat(story, WAITS)
    assert [action for action, _ in swept(story)] == ["kept"]
    story.world.clock.tick(200)
    beat(story, WAITS)
    assert [action for action, _ in swept(story)] == ["teardown"]


def test_a_person_may_give_up_other_peoples_jobs_but_never_an_active_run() -> None:
    story = shared()
    beat(story, MINE)
    delete_cluster(story.world.ports, "shared", force=True)
    story.pass_time(60)
    assert story.world.clusters.stored["shared"].status == "Deleted"
    training = in_training()
    with pytest.raises(ClusterInUse, match="is used by run-"):
        delete_cluster(training.world.ports, training.cluster.name, force=True)
    assert not training.cluster.delete_forced


def test_what_a_run_makes_that_came_before_a_forced_deletion_is_not_given_up_with_it() -> None:
    story = shared()
    delete_cluster(story.world.ports, "shared", force=True)
    story.submit(cluster={"name": "shared"})
    story.pass_time(60)
    kept = story.world.clusters.stored["shared"]
    assert (kept.status, kept.delete_forced) == ("Ready", False)


def test_a_runs_own_cluster_stays_for_a_persons_job_says_so_and_goes_after_it() -> None:
    story = in_training()
    beat(story, MINE, story.cluster.name)
    story.end()
    story.pass_time(60)
    assert story.run.status == "Succeeded"
    assert "used by people: 1 running job of alice" in story.run.teardown_refused
    assert story.run.teardown_refused in story.said
    assert swept(story) == []
    beat(story, NOBODYS, story.cluster.name)
    assert [action for action, _ in swept(story)] == ["teardown"]
    story.pass_time(60)
    assert story.cluster.status == "Deleted"


def test_what_an_old_agent_or_an_earlier_cluster_of_the_name_does_not_say_blocks_nothing() -> None:
    story = shared()
    beat(story, None)
    delete_cluster(story.world.ports, "shared")
    story.pass_time(60)
    assert story.world.clusters.stored["shared"].status == "Deleted"


def test_a_restored_table_that_knows_no_newer_heartbeat_does_not_delete_a_cluster_in_use() -> None:
    story = shared()
    story.world.clock.tick(86400)  # the table's newest record is a day old
    assert swept(story) == []
    story.world.clock.tick(60)
    beat(story, MINE)
    assert swept(story) == []
    assert story.world.clusters.stored["shared"].status == "Ready"


def test_a_cluster_that_stays_silent_while_we_listen_is_idle_after_all() -> None:
    story = shared()
    story.world.clock.tick(1801)
    assert swept(story) == []
    story.world.clock.tick(601)
    assert [action for action, _ in swept(story)] == ["teardown"]
