"""A run or a cluster that this version cannot read is kept, and keeps no other from its turn."""

from __future__ import annotations

import pytest
from tests.app.test_app_orphans import assert_kept, left_behind, old_sweep
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, in_training, make_cluster, run_spec

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.machines.cluster.cluster_decide import deadline_seconds
from trainyard.domain.errors import ClusterInUse, RecordUnreadable
from trainyard_contracts.cluster_specs import read_cluster_spec


def idle_for_hours(story: Story, *names: str) -> None:
    story.world.clock.tick(7200)
    for name in names:
        story.beat(name)


def test_no_sweep_takes_the_cluster_of_an_unreadable_run_for_idle() -> None:
    story = Story()
    for name in ("used", "idle"):
        make_cluster(story, name)
    story.submit(run_spec(cluster={"name": "used"}))
    story.rest()
    story.world.runs.broken.add(story.run_id)
    idle_for_hours(story, "used", "idle")
    done = [(swept.action, swept.subject) for swept in story.sweep()]
    assert ("teardown", "idle") in done
    assert ("kept", "used") in done
    assert ("teardown", "used") not in done
    assert story.world.clusters.stored["used"].status == "Ready"


@pytest.mark.parametrize("force", [False, True])
def test_no_person_deletes_the_cluster_of_an_unreadable_run(force: bool) -> None:
    story = in_training()
    name = story.cluster.name
    story.world.runs.broken.add(story.run_id)
    with pytest.raises(ClusterInUse, match="cannot read its record"):
        delete_cluster(story.world.ports, name, force=force)


def test_an_orphan_that_an_unreadable_run_may_use_is_kept() -> None:
    story = Story()
    seen = left_behind(story)
    story.submit(run_spec(cluster={"name": make_cluster(story).name}))
    run = story.run
    story.world.runs.stored[run.id] = run.model_copy(update={"cluster_name": seen.name})
    story.world.runs.broken.add(run.id)
    story.world.clock.tick(1)
    done = [swept for swept in old_sweep(story) if swept.subject == seen.name]
    assert_kept(story, done, seen.name, "which this version cannot read")


def test_a_cluster_whose_record_cannot_be_read_is_no_orphan() -> None:
    story = Story()
    make_cluster(story, "newer")
    make_cluster(story, "idle")
    story.world.clusters.broken.add("newer")
    idle_for_hours(story, "idle")
    done = [(swept.action, swept.subject) for swept in story.sweep()]
    assert done == [("teardown", "idle")]
    assert "newer" in story.world.backend.clusters


def test_the_cluster_that_is_made_for_an_unreadable_run_has_the_longest_time() -> None:
    story = Story()
    story.submit()
    story.rest()
    assert deadline_seconds(story.world.ports, story.cluster) == 3600
    story.world.runs.broken.add(story.run_id)
    cluster = next(iter(story.world.clusters.stored.values()))
    assert deadline_seconds(story.world.ports, cluster) == 86400


def test_nothing_is_decided_for_an_unreadable_run_and_it_goes_on_once_it_is_read() -> None:
    story = in_training()
    before = story.run
    story.world.runs.broken.add(before.id)
    story.world.clock.tick(600)
    story.sweep()
    with pytest.raises(RecordUnreadable):
        story.world.ports.runs.get(before.id)
    assert story.world.runs.stored[before.id] == before
    story.world.runs.broken.clear()
    story.end()
    story.rest()
    assert story.run.outcome == "succeeded"


def test_a_cluster_that_is_gone_is_closed_though_its_runs_record_cannot_be_read() -> None:
    story = Story()
    create_cluster(story.world.ports, read_cluster_spec(cluster_spec("alone", workers=2)))
    story.rest()
    owner = story.submit(run_spec(cluster={"name": "alone"})).id
    made = story.world.clusters.stored["alone"]
    story.world.clusters.stored["alone"] = made.model_copy(update={"owner_run": owner})
    story.world.runs.stored[owner] = story.run.model_copy(update={"status": "Failed"})
    story.world.runs.broken.add(owner)
    delete_cluster(story.world.ports, "alone")
    story.rest()
    assert story.world.clusters.stored["alone"].status == "Deleted"
