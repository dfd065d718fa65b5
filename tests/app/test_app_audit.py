"""What the machine itself makes, replaces and deletes is in the audit list once, and why."""

from __future__ import annotations

from datetime import timedelta

from tests.support.story import Story, in_training, make_cluster, run_spec

from trainyard.app.clusters.delete_cluster import delete_cluster
from trainyard.app.runs.cancel_run import cancel_run
from trainyard.domain.audit import AuditEntry
from trainyard_contracts.people import named

LOST = "ip-127-0-1-12"

ALICE = named("arn:aws:iam::123456789012:user/alice")


def own(story: Story, what: str) -> list[AuditEntry]:
    return [
        one for one in story.world.audit.entries.values() if one.who is None and one.what == what
    ]


def test_a_runs_own_cluster_is_made_and_deleted_for_the_run() -> None:
    story = in_training()
    story.end()
    story.rest()
    (made,), (gone,) = own(story, "cluster.create"), own(story, "cluster.delete")
    assert made.subject == gone.subject == f"cluster/{story.run.cluster_name}"
    assert story.run.id in made.reason
    assert gone.reason == f"Run {story.run.id} needs it no more."
    assert gone.outcome == "decided"


def test_a_lost_nodes_replacement_is_there_once_however_often_the_step_is_repeated() -> None:
    story = in_training()
    story.lose(LOST)
    story.rest()
    story.world.clock.tick(timedelta(minutes=1).total_seconds())
    story.sweep()
    story.rest()
    found = own(story, "node.replace")
    assert len(found) == len(story.world.backend.replaced) == 1
    assert found[0].subject.startswith(f"node/{story.run.cluster_name}/i-")
    assert found[0].reason


def test_the_deletion_of_a_cluster_names_who_asked_for_it() -> None:
    story = Story()
    make_cluster(story)
    delete_cluster(story.world.ports, "shared", by=ALICE)
    story.rest()
    (gone,) = own(story, "cluster.delete")
    assert gone.reason == "alice asked for it."
    assert story.world.clusters.stored["shared"].deleted_by == ALICE


def test_a_cancelled_run_keeps_who_cancelled_it_and_a_resumed_one_forgets_it() -> None:
    story = in_training()
    cancel_run(story.world.ports, story.run.id, by=ALICE, reason="wrong data")
    story.rest()
    story.end("cancelled")
    story.rest()
    assert story.run.cancelled_by == ALICE
    assert story.run.problem is not None
    assert "Cancelled by alice. Reason: wrong data" in story.run.problem.detail


def test_a_run_of_an_older_version_has_no_owner_and_is_read() -> None:
    story = Story()
    run = story.submit(run_spec())
    assert run.created_by is None
    assert "createdBy" in run.model_dump(by_alias=True)
    older = run.model_dump(mode="json", by_alias=True)
    for name in ("createdBy", "sharedWith", "cancelledBy"):
        del older[name]
    assert type(run).model_validate(older) == run
