"""Clusters with our tag but no record: an orphan is deleted only on proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.memory import MemoryBackend, MemoryClusters, MemoryRuns, MemoryWaits
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, in_training, make_cluster

from trainyard.app.clusters.create_cluster import create_cluster
from trainyard.app.facts.record_fact import record_fact
from trainyard.app.sweep.sweep import Swept, sweep
from trainyard.app.sweep.unknown_clusters import UNKNOWN_CLUSTER
from trainyard.domain.errors import RetryableError
from trainyard.domain.job_facts import UnsavedRun
from trainyard.domain.orphans import allowed
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus
from trainyard.outside.seen_clusters import BackendCluster
from trainyard.ports import Ports
from trainyard_contracts.cluster_specs import read_cluster_spec

OLD = 601


def left_behind(story: Story, name: str = "late", **record: Any) -> BackendCluster:
    """What a crash leaves: AWS made the cluster after its record was closed without its ARN."""
    now = story.world.clock.now()
    spec = read_cluster_spec(cluster_spec(name))
    made = Cluster(name=name, spec=spec, created_at=now, updated_at=now, create_requested=True)
    story.world.backend.create(made)
    story.world.clusters.stored[name] = made.model_copy(update={"status": "Deleted", **record})
    return story.world.backend.clusters[name]


def acts(done: list[Swept]) -> list[tuple[str, str]]:
    return [(swept.action, swept.subject) for swept in done]


def old_sweep(story: Story) -> list[Swept]:
    story.world.clock.tick(OLD)
    return sweep(story.world.ports)


def assert_kept(story: Story, done: list[Swept], name: str, why: str) -> None:
    assert acts(done) == [(UNKNOWN_CLUSTER, name)]
    assert why in done[0].reason
    assert "delete it by hand" in done[0].reason
    assert name in story.world.backend.clusters


def test_a_cluster_that_appeared_after_its_record_was_closed_is_deleted_when_it_is_old_enough() -> (
    None
):
    story = Story()
    left_behind(story)
    story.world.clock.tick(599)
    assert sweep(story.world.ports) == []
    story.world.clock.tick(2)
    assert acts(sweep(story.world.ports)) == [("orphan deleted", "late")]


def test_clusters_of_others_are_never_looked_at() -> None:
    story = Story()
    left_behind(story)
    seen = story.world.backend.clusters.pop("late")
    story.world.backend.beside.clear()
    story.world.backend.clusters["x"] = BackendCluster(
        seen.backend,
        seen.arn,
        "x",
        BackendStatus.IN_SERVICE,
        "InService",
        tags={"owner": "somebody"},
        created_at=seen.created_at,
    )
    assert old_sweep(story) == []


def test_an_empty_table_deletes_no_cluster_and_says_what_a_person_should_do() -> None:
    story = in_training()
    name = story.cluster.name
    for twin, *given in (
        (story.world.runs, story.world.clock),
        (story.world.clusters, story.world.clock),
        (story.world.waits,),
    ):
        twin.__init__(*given)  # type: ignore[misc]
    assert isinstance(story.world.clusters, MemoryClusters)
    assert isinstance(story.world.runs, MemoryRuns)
    assert isinstance(story.world.waits, MemoryWaits)
    assert_kept(story, old_sweep(story), name, "no record has its name")


def test_a_cluster_whose_record_was_lost_is_not_ended_by_a_new_record_of_its_name() -> None:
    story = Story()
    lost = make_cluster(story)
    story.world.clusters.stored.clear()
    story.world.clock.tick(60)
    create_cluster(story.world.ports, lost.spec)
    story.machines.run_until_rest()
    for _ in range(
        3
    ):  # the deadline of a cluster that is being made, and what a teardown waits for
        story.world.clock.tick(3601)
        sweep(story.world.ports)
        story.machines.run_until_rest()
    seen = story.world.backend.clusters["shared"]
    assert (seen.arn, seen.status) == (lost.arn, BackendStatus.IN_SERVICE)
    assert (list(story.world.backend.beside), len(story.world.secrets.names)) == (
        [("shared", 1)],
        1,
    ), "it keeps its role and its key"
    record = story.world.clusters.stored["shared"]
    assert (record.status, record.arn) == ("Deleted", None)
    assert record.problem is not None
    assert "was made for another record" in record.problem.detail


def test_a_table_restored_to_an_earlier_cluster_of_the_name_does_not_delete_the_present_one() -> (
    None
):
    story = Story()
    make_cluster(story)
    present = story.world.clusters.stored["shared"]
    earlier = present.model_copy(
        update={
            "status": "Deleted",
            "arn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/earlier0000",
        }
    )
    story.world.clusters.stored["shared"] = earlier
    assert_kept(story, old_sweep(story), "shared", "is of another cluster")


@pytest.mark.parametrize("status", ["Ready", "Creating", "Failed"])
def test_a_cluster_whose_living_record_is_of_another_one_is_kept(status: str) -> None:
    story = Story()
    left_behind(
        story, status=status, arn="arn:aws:sagemaker:us-east-1:123456789012:cluster/other0000000"
    )
    done = [swept for swept in old_sweep(story) if swept.action == UNKNOWN_CLUSTER]
    assert [swept.subject for swept in done] == ["late"]
    assert "late" in story.world.backend.clusters


@pytest.mark.parametrize("record", [{"generation": 2}, {"create_requested": False}])
def test_a_closed_record_that_never_named_an_arn_proves_only_the_creation_that_it_asked_for(
    record: dict[str, Any],
) -> None:
    story = Story()
    left_behind(story, **record)
    assert_kept(story, old_sweep(story), "late", "does not name the record")


def test_a_closed_record_of_a_new_table_proves_nothing_of_a_cluster_of_its_name() -> None:
    story = Story()
    seen = left_behind(story)
    assert seen.created_at is not None
    record = story.world.clusters.stored["late"]
    story.world.clusters.stored["late"] = record.model_copy(
        update={"created_at": record.created_at.replace(year=2031)}
    )
    assert_kept(story, old_sweep(story), "late", "does not name the record")


def test_an_orphan_whose_controller_still_sends_heartbeats_is_kept() -> None:
    story = Story()
    seen = left_behind(story)
    left_behind(story, "unheard")
    story.world.clock.tick(OLD)
    at = story.world.clock.now().isoformat()
    detail = {
        "id": story.world.ids.ulid(),
        "at": at,
        "clusterName": "late",
        "clusterArn": seen.arn,
        "nodes": [],
    }
    envelope = {
        "source": "trainyard.agent",
        "detail-type": "ClusterHeartbeat",
        "id": "e",
        "detail": detail,
    }
    assert (
        record_fact(story.world.ports, envelope).result == "dropped"
    )  # it does not count as a sign of life of a cluster in use
    done = sweep(story.world.ports)
    assert ("orphan deleted", "unheard") in acts(done)
    assert "still sends heartbeats" in next(
        swept.reason for swept in done if swept.subject == "late"
    )


def test_an_orphan_that_holds_the_only_copy_of_a_run_is_kept() -> None:
    story = Story()
    left_behind(story)
    now = story.world.clock.now()
    story.world.clusters.record("late", UnsavedRun(id="u", at=now, run_id="run-a", generation=1))
    assert_kept(story, old_sweep(story), "late", "results of run-a that are in no verified export")


def test_many_orphans_at_once_are_not_believed() -> None:
    story = Story()
    for name in ("one", "two"):
        left_behind(story, name)
    done = old_sweep(story)
    assert acts(done) == [(UNKNOWN_CLUSTER, "one"), (UNKNOWN_CLUSTER, "two")]
    assert "2 of 2 clusters" in done[0].reason
    assert set(story.world.backend.clusters) == {"one", "two"}
    assert [allowed(tagged) for tagged in (1, 9, 20, 39)] == [1, 1, 2, 3]


def test_a_list_that_is_older_than_the_truth_deletes_nothing_and_rings_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    seen = left_behind(story)
    monkeypatch.setattr(story.world.backend, "tagged", lambda: [seen])
    del story.world.backend.clusters["late"]
    story.world.backend.beside.clear()
    assert old_sweep(story) == []


def test_an_index_that_lags_behind_the_records_makes_no_orphan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    make_cluster(story)
    monkeypatch.setattr(story.world.clusters, "active", list)
    assert old_sweep(story) == []


def test_the_role_of_a_cluster_that_is_gone_is_removed_and_no_other() -> None:
    story = Story()
    make_cluster(story, "here")
    backend = story.world.backend
    backend.beside |= {("gone", 1): story.world.clock.now(), ("here", 7): story.world.clock.now()}
    assert acts(story.sweep()) == [], "it may be being made"
    story.world.clock.tick(601)
    assert ("remains deleted", "gone") in acts(story.sweep())
    assert set(backend.beside) == {("here", 1), ("here", 7)}, "AWS has a cluster of that name"


def test_each_backend_is_asked_for_its_own_and_only_its_own_is_removed_there() -> None:
    story = Story()
    other = MemoryBackend(story.world.clock, "test", "other")
    ports = replace(story.world.ports, backends={**story.world.ports.backends, "other": other})
    for backend in (story.world.backend, other):
        backend.beside["gone", 1] = story.world.clock.now()
    story.world.backend.refuse["clean_up"] = RetryableError("AWS is away")
    story.world.clock.tick(601)
    done = [(swept.action, swept.subject) for swept in sweep(ports)]
    assert done == [("failed", "left_over gone"), ("remains deleted", "gone")]
    assert (list(story.world.backend.beside), list(other.beside)) == ([("gone", 1)], [])


def two_backends(story: Story) -> tuple[Ports, MemoryBackend]:
    """A second one beside the story's, with an orphan of its own and what was made for it."""
    other = MemoryBackend(story.world.clock, "test", "other")
    left_behind(story)
    other.clusters["late"] = replace(story.world.backend.clusters.pop("late"), backend="other")
    other.beside["gone", 1] = story.world.clock.now()
    story.world.backend.beside.clear()
    story.world.clock.tick(OLD)
    backends = {**story.world.ports.backends, "other": other}
    return replace(story.world.ports, backends=backends), other


@pytest.mark.parametrize(
    ("question", "failed"), [("tagged", "orphan hyperpod"), ("remains", "left_over hyperpod")]
)
def test_a_backend_that_refuses_to_answer_is_told_and_keeps_no_other_from_its_turn(
    monkeypatch: pytest.MonkeyPatch, question: str, failed: str
) -> None:
    story = Story()
    ports, _ = two_backends(story)

    def refuse() -> None:
        raise RetryableError("AWS is away")

    monkeypatch.setattr(story.world.backend, question, refuse)
    done = sweep(ports)
    assert sorted(acts(done)) == [
        ("failed", failed),
        ("orphan deleted", "late"),
        ("remains deleted", "gone"),
    ]
    assert [swept.reason for swept in done if swept.action == "failed"] == ["internal: AWS is away"]


def test_a_cluster_that_cannot_be_looked_at_is_told_and_counts_as_the_next_orphan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    ports, other = two_backends(story)
    hidden = replace(other.clusters["late"], backend="hyperpod", name="hidden", arn="arn:hidden")
    story.world.backend.clusters["hidden"] = hidden

    def refuse(name: str) -> None:
        raise RetryableError("AWS is away")

    monkeypatch.setattr(story.world.backend, "describe", refuse)
    done = sweep(ports)
    assert sorted(acts(done)) == [
        ("failed", "orphan hidden"),
        ("remains deleted", "gone"),
        (UNKNOWN_CLUSTER, "late"),
    ]
    assert "late" in other.clusters


def test_a_cluster_is_served_by_the_backend_that_its_spec_names() -> None:
    story = Story()
    cluster = make_cluster(story)
    other = MemoryBackend(story.world.clock, "test", "other")
    ports = replace(story.world.ports, backends={"other": other, cluster.spec.backend: "its own"})
    assert ports.backend(cluster) == ports.backend(cluster.spec) == "its own"
