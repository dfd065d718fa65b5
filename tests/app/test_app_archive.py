"""A filesystem that is made with a cluster: listed from its archive, and exported to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory import Died, MemoryBackend, MemoryChanges
from tests.support.parallelcluster_specs import spec
from tests.support.story import Story, record_fact, run_spec

from trainyard.app.clusters.change_cluster import stop_fleet, update_cluster
from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.runs.dry_run import dry_run_cluster
from trainyard.app.runs.resume_run import resume_run
from trainyard.app.runs.submit_run import submit_run
from trainyard.app.sweep.sweep import sweep
from trainyard.domain import errors
from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import ArchiveEnded
from trainyard.domain.filesystems import TaskEnd
from trainyard.domain.records import CapacityTry, Cluster
from trainyard.domain.states import BackendStatus
from trainyard_contracts.cluster_specs import read_cluster_spec

ARCHIVE = "s3://my-archive/lab/"
NAME = "demo"


class Lab:
    """A cluster of the second backend, whose filesystem FSx knows by the cluster's tags."""

    def __init__(self) -> None:
        self.story = Story()
        self.world = self.story.world
        self.backend = MemoryBackend(
            self.world.clock, "test", "parallelcluster", self.world.commands
        )
        backends = {**self.world.ports.backends, "parallelcluster": self.backend}
        self.world.ports = replace(self.world.ports, backends=backends)
        self.story.machines.ports = self.world.ports

    @property
    def cluster(self) -> Cluster:
        return self.world.clusters.stored[NAME]

    def changes(self) -> MemoryChanges:
        self.backend.changes = MemoryChanges()
        return self.backend.changes

    def create(self, name: str = NAME, **more: Any) -> None:
        given = spec(name=name, fsx={"capacityGib": 1200, "archive": ARCHIVE, **more})
        create_cluster(self.world.ports, read_cluster_spec(given))
        self.rest()

    def is_made(self) -> str:
        """AWS has it, and every node is linked."""
        fsx_id = self.world.lustre.make_with(self.cluster)
        self.backend.advance(NAME, BackendStatus.IN_SERVICE)
        detail: Mapping[str, Any] = {
            "id": self.world.ids.ulid(),
            "at": self.story.at,
            "clusterName": NAME,
            "clusterArn": self.cluster.arn,
            "nodes": ["a"],
        }
        ready = {"source": "trainyard.agent", "detail-type": "ClusterReady", "id": "e"}
        record_fact(self.world.ports, {**ready, "detail": dict(detail)})
        self.rest()
        return fsx_id

    def ready(self, **more: Any) -> str:
        self.create(**more)
        fsx_id = self.is_made()
        self.sweep()
        assert self.cluster.status == "Ready", self.cluster
        return fsx_id

    def rest(self) -> None:
        self.story.machines.run_until_rest()

    def sweep(self, seconds: float = 60) -> None:
        self.world.clock.tick(seconds)
        sweep(self.world.ports)
        self.rest()

    def delete(self, *, force: bool = False) -> None:
        delete_cluster(self.world.ports, NAME, force=force)
        self.rest()

    def said(self) -> list[str]:
        ended = Book(self.world.ports.clusters.facts(NAME)).of(ArchiveEnded)
        return [fact.words for fact in ended]


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_a_cluster_is_ready_only_when_fsx_has_listed_what_its_archive_holds(lab: Lab) -> None:
    lab.create()
    fsx_id = lab.is_made()
    assert lab.cluster.status == "InService"
    lab.world.lustre.link_is(fsx_id, "coming")
    lab.sweep()
    assert lab.cluster.status == "InService"
    lab.world.lustre.link_is(fsx_id, "there")
    lab.sweep()
    assert lab.cluster.status == "Ready"


def test_a_link_that_is_broken_fails_the_cluster_with_fsxs_words(lab: Lab) -> None:
    lab.create()
    fsx_id = lab.is_made()
    lab.world.lustre.link_is(fsx_id, "broken", "Access to the bucket is denied.")
    lab.sweep()
    assert lab.cluster.problem is not None
    assert "Access to the bucket is denied." in lab.cluster.problem.detail


def test_a_listing_that_never_ends_fails_the_cluster_at_its_deadline(lab: Lab) -> None:
    lab.create()
    lab.world.lustre.link_is(lab.is_made(), "coming")
    for _ in range(40):
        lab.sweep(600)
    assert lab.cluster.status in ("Failed", "Deleting", "Deleted")
    assert lab.cluster.problem is not None
    assert lab.cluster.problem.code == "cluster-deadline"


def test_nothing_is_deleted_before_the_export_is_verified(lab: Lab) -> None:
    lab.ready()
    lab.delete()
    assert lab.cluster.status == "Deleting"
    lab.sweep()
    assert len(lab.world.lustre.tasks) == 1
    lab.sweep()
    assert NAME in lab.backend.clusters
    assert lab.cluster.delete_requested_at is None
    lab.world.lustre.end(TaskEnd("succeeded", files=3))
    lab.sweep()
    assert lab.cluster.delete_requested_at is not None
    lab.sweep()
    assert lab.cluster.status == "Deleted"
    (said,) = lab.said()
    assert ARCHIVE in said
    assert "FSx copied 3 files" in said


@pytest.mark.parametrize(
    "end",
    [
        TaskEnd("succeeded", files=3, failed_files=1),
        TaskEnd("failed", said="The bucket is gone."),
    ],
    ids=["one file of three", "the task itself"],
)
def test_a_cluster_whose_export_failed_is_kept_and_says_so(lab: Lab, end: TaskEnd) -> None:
    lab.ready()
    lab.delete()
    lab.sweep()
    lab.world.lustre.end(end)
    lab.sweep()
    assert lab.cluster.status == "Ready"
    assert NAME in lab.backend.clusters
    assert lab.cluster.problem is not None
    assert lab.cluster.problem.code == "archive-failed"
    assert "is not deleted" in lab.said()[-1]
    for _ in range(10):
        lab.sweep()
    assert lab.cluster.status == "Ready", "one hour is between two tries"
    assert len(lab.world.lustre.tasks) == 1


FAILED = TaskEnd("failed", said="The bucket is gone.")


def test_a_stopped_cluster_that_is_kept_is_still_stopped_and_tried_again_after_an_hour(
    lab: Lab,
) -> None:
    changes = lab.changes()
    lab.ready()
    stop_fleet(lab.world.ports, NAME)
    changes.fleet = "stopped"
    lab.sweep()
    assert lab.cluster.status == "Stopped"
    lab.delete()
    lab.sweep()
    lab.world.lustre.end(FAILED)
    lab.sweep()
    assert lab.cluster.status == "Stopped"
    for _ in range(80):
        lab.sweep()
    assert len(lab.world.lustre.tasks) == 2


def test_a_cluster_that_is_kept_amid_an_update_is_no_sooner_ready_than_that_is_over(
    lab: Lab,
) -> None:
    changes = lab.changes()
    lab.ready()
    update_cluster(lab.world.ports, NAME, lab.cluster.spec.changed(idle_limit_seconds=7200))
    lab.sweep()
    lab.delete()
    lab.sweep()
    lab.world.lustre.end(FAILED)
    sweep(lab.world.ports)
    assert lab.cluster.status == "Updating"
    changes.state = "complete"
    lab.sweep()
    assert (lab.cluster.status, lab.cluster.spec.idle_limit_seconds) == ("Ready", 7200)


def test_a_person_may_have_it_tried_again_at_once(lab: Lab) -> None:
    lab.ready()
    lab.delete()
    lab.sweep()
    lab.world.lustre.end(TaskEnd("failed", said="The bucket is gone."))
    lab.sweep()
    lab.delete()
    lab.sweep()
    assert len(lab.world.lustre.tasks) == 2, "another task, with another token"
    lab.world.lustre.end(TaskEnd("succeeded", files=3))
    lab.sweep()
    assert lab.cluster.delete_requested_at is not None


def test_an_idle_cluster_that_was_kept_is_tried_again_after_an_hour(lab: Lab) -> None:
    lab.ready()
    lab.delete()
    lab.sweep()
    lab.world.lustre.end(TaskEnd("failed", said="The bucket is gone."))
    lab.sweep()
    for _ in range(80):
        lab.sweep()
    assert len(lab.world.lustre.tasks) == 2


def test_what_a_person_gives_up_by_force_is_not_exported(lab: Lab) -> None:
    lab.ready()
    lab.delete(force=True)
    lab.sweep()
    assert lab.cluster.delete_requested_at is not None
    assert lab.world.lustre.tasks == {}


def test_force_while_fsx_exports_gives_up_what_that_would_save(lab: Lab) -> None:
    lab.ready()
    lab.delete()
    lab.sweep()
    lab.delete(force=True)
    asked = lab.cluster.delete_requested_at
    lab.world.lustre.end(TaskEnd("failed", said="The filesystem is being deleted."))
    sweep(lab.world.ports)
    assert (lab.cluster.status, lab.cluster.delete_requested_at) == ("Deleting", asked)
    assert lab.said() == []
    lab.sweep()
    assert lab.cluster.status == "Deleted"


def test_a_cluster_that_was_never_ready_holds_nothing_and_goes_at_once(lab: Lab) -> None:
    lab.create()
    lab.is_made()
    lab.delete()
    assert lab.cluster.delete_requested_at is not None


def test_a_task_that_runs_already_is_waited_for(lab: Lab) -> None:
    lab.ready()
    lab.world.lustre.refuse["export"] = errors.ConflictError("a task is executing")
    lab.delete()
    lab.sweep()
    assert lab.cluster.archive is not None
    assert lab.cluster.archive.waits_for == "a task is executing"
    del lab.world.lustre.refuse["export"]
    lab.sweep()
    assert len(lab.world.lustre.tasks) == 1


def test_two_clusters_never_export_to_one_prefix(lab: Lab) -> None:
    lab.ready()
    with pytest.raises(errors.InvalidRequest, match="cluster 'demo' has"):
        lab.create("other")


def test_a_run_whose_archive_is_another_clusters_is_refused_when_it_is_submitted(lab: Lab) -> None:
    lab.ready()
    archived, same = (
        spec(name=name, fsx={"capacityGib": 1200, "archive": ARCHIVE}) for name in ("other", NAME)
    )
    later = {"spec": spec(name="other"), "otherwise": [archived]}
    for given in ({"spec": archived}, {"spec": same}, later):
        with pytest.raises(errors.InvalidRequest, match="cluster 'demo' has") as refused:
            lab.story.submit(cluster=given)
        (error,) = refused.value.errors
        assert error.field.startswith("cluster.")
    with pytest.raises(errors.InvalidRequest, match="cluster 'demo' has"):
        dry_run_cluster(lab.world.ports, read_cluster_spec(archived))


@pytest.mark.parametrize("which", ["asked", "otherwise"])
def test_a_cluster_that_may_be_made_in_another_way_holds_the_prefix_of_that_too(
    lab: Lab, which: str
) -> None:
    lab.ready()
    plain = read_cluster_spec(spec(name=NAME))
    other = {"asked": lab.cluster.spec} if which == "asked" else {"otherwise": [lab.cluster.spec]}
    tries = [CapacityTry(number=1, way="a way", began_at=lab.cluster.created_at)]
    lab.world.ports.clusters.put(lab.cluster.changed(spec=plain, tries=tries, **other))
    with pytest.raises(errors.InvalidRequest, match="cluster 'demo' has"):
        lab.create("other")


def test_a_cluster_that_is_made_again_has_the_same_files(lab: Lab) -> None:
    lab.ready()
    before = lab.cluster.filesystem
    lab.delete()
    lab.sweep()
    lab.world.lustre.end(TaskEnd("succeeded", files=3))
    lab.sweep()
    lab.sweep()
    lab.create()
    assert lab.cluster.generation == 2
    assert lab.cluster.filesystem == before == ARCHIVE


def _run_that_ended(lab: Lab) -> Story:
    """A run whose own cluster has an archive; its results are exported, and its cluster is to go.

    The story's world takes the second backend for its one.
    """
    story = lab.story
    lab.world.backend = lab.backend
    story.submit(
        cluster={"spec": spec(fsx={"capacityGib": 1200, "archive": ARCHIVE})}, teardown="always"
    )
    story.ready()
    lab.world.lustre.make_with(story.cluster)
    story.sweep()
    story.training()
    story.checkpoint(5)
    story.end()
    assert story.run.status == "TearingDown", story.said
    return story


def test_a_run_ends_when_what_its_own_cluster_held_is_in_its_archive(lab: Lab) -> None:
    story = _run_that_ended(lab)
    lab.sweep()
    lab.world.lustre.end(TaskEnd("succeeded", files=3))
    for _ in range(3):
        lab.sweep()
    assert (story.run.status, story.cluster.status) == ("Succeeded", "Deleted")
    assert f"held is in {ARCHIVE}" in story.said


def test_a_run_whose_cluster_is_kept_ends_and_says_why_and_the_cluster_goes_later(
    lab: Lab,
) -> None:
    story = _run_that_ended(lab)
    lab.sweep()
    lab.world.lustre.end(TaskEnd("failed", said="The bucket is gone."))
    lab.sweep()
    assert (story.run.status, story.cluster.status) == ("Succeeded", "Ready"), story.said
    assert "The cluster is kept for now." in story.said
    assert "The bucket is gone." in story.run.teardown_refused
    for _ in range(62):
        lab.sweep()
    lab.world.lustre.end(TaskEnd("succeeded", files=3))
    for _ in range(3):
        lab.sweep()
    assert story.cluster.status == "Deleted"


def _run_that_was_cancelled(lab: Lab) -> Story:
    """Its own cluster, with an archive, is kept."""
    story = lab.story
    lab.world.backend = lab.backend
    given = spec(fsx={"capacityGib": 1200, "archive": ARCHIVE})
    story.submit(cluster={"spec": given}, teardown="never")
    story.ready()
    lab.world.lustre.make_with(story.cluster)
    story.sweep()
    story.training()
    story.checkpoint(5)
    story.cancel()
    story.end("cancelled")
    assert (story.run.status, story.cluster.status) == ("Cancelled", "Ready"), story.said
    return story


def test_a_run_whose_checkpoints_were_given_up_is_not_resumed_from_an_older_archive(
    lab: Lab,
) -> None:
    story = _run_that_was_cancelled(lab)
    delete_cluster(lab.world.ports, story.cluster.name, force=True)
    for _ in range(3):
        lab.sweep()
    assert story.cluster.status == "Deleted"
    with pytest.raises(errors.WrongState, match="holds the run's checkpoints"):
        resume_run(lab.world.ports, story.run_id)


def _begun_with(lab: Lab, source: str) -> None:
    given = spec(fsx={"capacityGib": 1200, "archive": ARCHIVE})
    checkpoint = {"startFrom": {"run": source, "step": 5}}
    submit_run(lab.world.ports, run_spec(cluster={"spec": given}, checkpoint=checkpoint))


def test_no_run_begins_with_a_checkpoint_that_the_archive_may_lack(lab: Lab) -> None:
    story = _run_that_was_cancelled(lab)
    delete_cluster(lab.world.ports, story.cluster.name, force=True)
    for _ in range(3):
        lab.sweep()
    with pytest.raises(errors.InvalidRequest, match="no verified export") as refused:
        _begun_with(lab, story.run_id)
    assert [one.field for one in refused.value.errors] == ["checkpoint.startFrom.run"]


def test_a_run_begins_with_a_checkpoint_of_an_archive_that_was_verified(lab: Lab) -> None:
    story = _run_that_was_cancelled(lab)
    delete_cluster(lab.world.ports, story.cluster.name)
    lab.rest()
    lab.sweep()
    lab.world.lustre.end(TaskEnd("succeeded", files=3))
    for _ in range(3):
        lab.sweep()
    _begun_with(lab, story.run_id)


def test_a_run_is_resumed_from_its_archive_once_that_is_verified(lab: Lab) -> None:
    story = _run_that_was_cancelled(lab)
    delete_cluster(lab.world.ports, story.cluster.name)
    lab.rest()
    lab.sweep()
    lab.world.lustre.end(TaskEnd("succeeded", files=3))
    for _ in range(3):
        lab.sweep()
    assert story.cluster.status == "Deleted"
    assert resume_run(lab.world.ports, story.run_id).life == 2


def test_a_run_whose_own_cluster_is_stopped_is_not_resumed_to_wait_for_nothing(lab: Lab) -> None:
    changes = lab.changes()
    story = _run_that_was_cancelled(lab)
    stop_fleet(lab.world.ports, story.cluster.name)
    changes.fleet = "stopped"
    lab.sweep()
    assert story.cluster.status == "Stopped"
    with pytest.raises(errors.WrongState, match="is stopped"):
        resume_run(lab.world.ports, story.run_id)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("sweeps", [0, 1], ids=["as it begins", "as it ends"])
def test_a_sweep_that_dies_at_any_call_leaves_one_export_and_tells_it_once(
    sweeps: int, after: bool
) -> None:
    for call in range(1, 200):
        lab = Lab()
        lab.ready()
        lab.delete()
        for _ in range(sweeps):
            lab.sweep()
            lab.world.lustre.end(TaskEnd("succeeded", files=3))
        lab.world.fuse.arm(call, after=after)
        died = _dies(lab)
        lab.world.fuse.arm(None)
        lab.sweep()
        lab.world.lustre.end(TaskEnd("succeeded", files=3))
        for _ in range(3):
            lab.sweep()
        assert lab.cluster.status == "Deleted", call
        assert len(lab.world.lustre.tasks) == 1, call
        assert len(lab.said()) == 1, call
        if not died:
            return
    pytest.fail("a sweep has more calls than were tried")


def _dies(lab: Lab) -> bool:
    try:
        sweep(lab.world.ports)
    except Died:
        return True
    return False
