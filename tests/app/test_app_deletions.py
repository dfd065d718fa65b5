"""A cluster's deletion that is asked for while the machine of an earlier one is about to end."""

from __future__ import annotations

import pytest
from tests.support.story import Story, make_cluster

from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.machines.steps import run_step
from trainyard.domain import names
from trainyard.domain.records import Cluster

NAME = "shared"


def cluster(story: Story) -> Cluster:
    return story.world.clusters.stored[NAME]


def blocked(story: Story) -> str:
    """The machine of a deletion has found that a run uses the cluster, and has not ended yet."""
    make_cluster(story)
    start_teardown(story.world.ports, cluster(story))
    run = story.submit(cluster={"name": NAME}, nodes=1)
    given = {"step": "teardown-check", "clusterName": NAME, "generation": 1}
    assert run_step(story.world.ports, given)["next"] == "blocked"
    return run.id


def is_over(story: Story) -> None:
    """The machine of the first deletion ends, without one."""
    name = names.cluster_execution(NAME, 1, cluster(story).machine_tries)
    story.world.executions.started["teardown", name].status = "SUCCEEDED"


def test_it_is_begun_by_the_next_sweep() -> None:
    story = Story()
    run = blocked(story)
    story.cancel(run)
    story.world.runs.stored[run] = story.world.runs.stored[run].changed(status="Cancelled")
    delete_cluster(story.world.ports, NAME)
    assert cluster(story).delete_asked
    is_over(story)
    assert cluster(story).status == "Ready"
    done = story.sweep()
    assert ("teardown", NAME) in [(one.action, one.subject) for one in done]
    for _ in range(3):
        story.pass_time(30)
    assert cluster(story).status == "Deleted"


@pytest.mark.parametrize("times", [1, 2])
def test_one_that_is_blocked_by_a_later_run_is_not_begun_when_that_ends(times: int) -> None:
    story = Story()
    run = blocked(story)
    stored = story.world.runs.stored[run]
    story.world.runs.stored[run] = stored.changed(status="Cancelled")
    for _ in range(times):
        delete_cluster(story.world.ports, NAME)
    story.world.runs.stored[run] = stored
    is_over(story)
    story.sweep()
    assert cluster(story).status == "Ready"
    story.world.runs.stored[run] = stored.changed(status="Cancelled")
    story.sweep()
    assert not cluster(story).delete_asked
    assert cluster(story).status == "Ready"
