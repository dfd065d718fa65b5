"""Arrays of runs as stories: members begin, end, fail and are cancelled, wherever processes die."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.spec_parts import cluster_spec
from tests.support.story import Story, make_cluster, run_spec

from trainyard.app.runs import advance_array as advance_module
from trainyard.app.runs.advance_array import cancel_array, member_ended, member_run
from trainyard.app.runs.submit_array import submit_array
from trainyard.domain import names
from trainyard.domain.array_records import RunArray
from trainyard.domain.errors import (
    BackendRejected,
    ClusterExists,
    ClusterNotFound,
    IdempotencyConflict,
)
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.people import Person

ANN = Person(
    id="AIDAANN", arn="arn:aws:iam::111122223333:user/ann", account="111122223333", name="ann",
    kind="user",
)  # fmt: skip


def array_spec(total: int = 6, parallel: int = 2, **extra: Any) -> ArraySpec:
    run = run_spec(nodes=1, cluster={"name": "shared"}, **extra)
    job = run.job.changed(arguments=["--lr", "{lr}", "--seed={index}"])
    return ArraySpec(
        run=run.changed(job=job),
        matrix={"lr": [f"0.{number}" for number in range(total)]},
        max_parallel=parallel,
    )


def on_shared(**given: Any) -> tuple[Story, RunArray]:
    story = Story()
    make_cluster(story)
    array = submit_array(story.world.ports, array_spec(**given))
    story.rest()
    return story, array


def now(story: Story, array: RunArray) -> RunArray:
    return story.world.arrays.stored[array.id]


def end_member(story: Story, array: RunArray, index: int) -> None:
    story.run_id = member_run(array, index)
    story.training()
    story.end(lastStep=20)


def active_runs(story: Story) -> list[str]:
    return [run.id for run in story.world.runs.active()]


def test_no_more_members_than_max_parallel_are_active_and_all_end() -> None:
    story, array = on_shared(total=6, parallel=2)
    for index in range(6):
        assert len(active_runs(story)) == min(2, 6 - index)
        end_member(story, array, index)
    ended = now(story, array)
    assert (ended.status, ended.succeeded) == ("Succeeded", 6)
    assert ended.reason == "6 of 6 members succeeded."


def test_two_hundred_members_all_end_and_no_sweep_is_needed_for_it() -> None:
    story, array = on_shared(total=200, parallel=20)
    for index in range(200):
        assert len(active_runs(story)) == min(20, 200 - index)
        end_member(story, array, index)
    ended = now(story, array)
    assert (ended.status, ended.succeeded) == ("Succeeded", 200)
    assert len(story.world.runs.stored) == 200


def test_each_member_is_an_ordinary_run_with_its_own_parameters() -> None:
    story, array = on_shared(total=3, parallel=3)
    run = story.world.runs.stored[member_run(array, 2)]
    assert run.spec.job.arguments == ["--lr", "0.2", "--seed=2"]
    assert run.name == "ddp-demo-2"
    assert run.array is not None
    assert (run.array.id, run.array.index) == (array.id, 2)


def test_an_array_of_a_thousand_begins_with_its_first_members_only() -> None:
    story, array = on_shared(total=1000, parallel=200)
    assert now(story, array).begun == 20
    for _ in range(12):
        story.sweep()
    assert (now(story, array).begun, len(active_runs(story))) == (200, 200)


@pytest.mark.parametrize("parallel", [20, 200])
def test_a_thousand_members_each_have_one_turn_and_the_array_ends(parallel: int) -> None:
    """Their runs end at once: what each does while it trains is the story of two hundred."""
    story, array = on_shared(total=1000, parallel=parallel)
    ends = {7: "Failed", 500: "Cancelled", 999: "Failed"}
    ports = story.world.ports
    most = 0
    while not now(story, array).over:
        active = now(story, array).active
        most = max(most, len(active))
        index = active[-1] if len(active) > 1 and active[-1] % 3 else active[0]
        run = story.world.runs.stored[member_run(array, index)]
        ended = ports.runs.put(run.changed(status=ends.get(index, "Succeeded")))
        for _ in range(2):  # news come twice
            member_ended(ports, ended)
    after = now(story, array)
    assert most == parallel
    assert (after.status, after.succeeded, after.begun) == ("Failed", 997, 1000)
    assert (after.failed, after.cancelled, after.refused) == ([7, 999], [500], [])
    assert after.reason == "997 of 1000 members succeeded, 2 failed, 1 cancelled."
    members = [run.array.index for run in story.world.runs.stored.values() if run.array]
    assert sorted(members) == list(range(1000))


def test_an_array_of_more_than_a_thousand_is_refused_with_the_limit() -> None:
    with pytest.raises(ValidationError, match=r"makes 1001 members; an array has at most 1000"):
        array_spec(total=1001)


def test_a_member_that_fails_keeps_no_other_from_its_turn() -> None:
    story, array = on_shared(total=3, parallel=1, recovery={"maxAttempts": 1})
    story.run_id = member_run(array, 0)
    story.training()
    story.end("failed", errorKind="unknown", lastStep=20)
    for index in (1, 2):
        end_member(story, array, index)
    ended = now(story, array)
    assert (ended.status, ended.succeeded, ended.failed) == ("Failed", 2, [0])
    assert ended.reason == "2 of 3 members succeeded, 1 failed."


def test_cancelling_an_array_cancels_what_is_active_and_begins_nothing_more() -> None:
    story, array = on_shared(total=6, parallel=2)
    cancel_array(story.world.ports, array.id, by=ANN, reason="enough")
    story.rest()
    assert story.world.runs.stored[member_run(array, 0)].reason == (
        "Cancelled: ann cancelled the array: enough"
    )
    cancel_array(story.world.ports, array.id)
    story.sweep()
    ended = now(story, array)
    assert (ended.status, ended.begun, ended.cancelled) == ("Cancelled", 2, [0, 1])
    assert active_runs(story) == []


@pytest.mark.parametrize("line", range(1, 60, 2))
def test_an_array_is_made_whole_wherever_its_submission_dies(line: int) -> None:
    story = Story()
    make_cluster(story)
    story.world.fuse.arm(line)
    try:
        submit_array(story.world.ports, array_spec(total=4, parallel=4), idempotency_key="k")
    except BaseException:  # noqa: BLE001 - the process died
        story.world.fuse.arm(None)
    story.world.fuse.arm(None)
    array = submit_array(story.world.ports, array_spec(total=4, parallel=4), idempotency_key="k")
    story.rest()
    story.pass_time(61)
    story.sweep()
    assert len(story.world.runs.stored) == 4
    for index in range(4):
        end_member(story, array, index)
    assert now(story, array).succeeded == 4


def test_the_sweep_goes_on_with_an_array_whose_submission_died_after_its_first_write() -> None:
    story = Story()
    make_cluster(story)
    array = submit_array(story.world.ports, array_spec(total=4, parallel=4))
    story.world.runs.stored.pop(member_run(array, 3))
    story.world.executions.started.pop(("run", f"{member_run(array, 3)}-1"))
    story.sweep()
    assert member_run(array, 3) in story.world.runs.stored


def test_an_end_that_nobody_counted_is_counted_by_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story, array = on_shared(total=3, parallel=1)
    from trainyard.app.machines.run import children

    monkeypatch.setattr(children, "member_ended", lambda ports, run: None)
    end_member(story, array, 0)
    assert now(story, array).succeeded == 0
    story.sweep()
    assert (now(story, array).succeeded, now(story, array).begun) == (1, 2)


def test_the_same_key_again_is_the_same_array_and_another_spec_is_refused() -> None:
    story = Story()
    make_cluster(story)
    first = submit_array(story.world.ports, array_spec(), idempotency_key="k")
    again = submit_array(story.world.ports, array_spec(), idempotency_key="k")
    assert first.id == again.id
    assert len(story.world.runs.stored) == 2
    with pytest.raises(IdempotencyConflict):
        submit_array(story.world.ports, array_spec(total=5), idempotency_key="k")


def test_an_array_on_a_cluster_that_there_is_not_is_refused_and_leaves_nothing() -> None:
    story = Story()
    with pytest.raises(ClusterNotFound):
        submit_array(story.world.ports, array_spec())
    assert story.world.arrays.stored == {}


def test_members_of_a_cluster_that_went_away_are_refused_and_the_array_says_why() -> None:
    story, array = on_shared(total=3, parallel=1)
    story.world.clusters.stored["shared"] = story.world.clusters.stored["shared"].changed(
        status="Deleted"
    )
    story.cancel(member_run(array, 0))
    story.rest()
    story.sweep()
    ended = now(story, array)
    assert (ended.status, ended.refused) == ("Failed", [1, 2])
    assert "Member 1 was refused: Cluster 'shared' is Deleted" in ended.reason


def test_an_array_with_a_spec_has_one_cluster_which_goes_with_its_last_member() -> None:
    story = Story()
    spec = array_spec(total=2, parallel=2)
    own = run_spec(cluster={"spec": cluster_spec(workers=2, spares=1)}).cluster
    array = submit_array(story.world.ports, spec.changed(run=spec.run.changed(cluster=own)))
    story.run_id = member_run(array, 0)
    story.ready()
    assert list(story.world.clusters.stored) == [array.cluster_name]
    end_member(story, array, 0)
    assert story.world.clusters.stored[array.cluster_name].status == "Ready"
    end_member(story, array, 1)
    story.rest()
    assert now(story, array).status == "Succeeded"
    assert story.world.clusters.stored[array.cluster_name].status in ("Deleting", "Deleted")


def test_a_member_ends_well_where_the_record_of_its_array_cannot_be_read() -> None:
    story, array = on_shared(total=2, parallel=1)
    story.world.arrays.stored.pop(array.id)
    end_member(story, array, 0)
    assert story.world.runs.stored[member_run(array, 0)].status == "Succeeded"


def own_cluster(total: int = 6, parallel: int = 2) -> ArraySpec:
    spec = array_spec(total=total, parallel=parallel)
    own = run_spec(cluster={"spec": cluster_spec(workers=2, spares=1)}).cluster
    return spec.changed(run=spec.run.changed(cluster=own))


def test_an_array_whose_cluster_is_refused_by_aws_ends_and_each_member_says_why() -> None:
    story = Story()
    story.world.backend.refuse["create"] = BackendRejected("the quota of ml.p5 is 0")
    array = submit_array(story.world.ports, own_cluster())
    story.rest()
    for _ in range(4):
        story.pass_time(61)
        story.sweep()
    ended = now(story, array)
    assert ended.status == "Failed"
    assert len(ended.failed) + len(ended.refused) == 6
    assert "quota of ml.p5" in story.world.runs.stored[member_run(array, 0)].reason
    assert active_runs(story) == []


def test_an_array_whose_cluster_can_never_be_stored_ends_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    refusal = ClusterExists("a cluster of that name exists")

    def refused(*given: object, **more: object) -> None:
        raise refusal

    with monkeypatch.context() as other:
        other.setattr(advance_module, "create_cluster", refused)
        array = submit_array(story.world.ports, own_cluster())
    story.rest()
    story.sweep()
    ended = now(story, array)
    assert (ended.status, ended.refused) == ("Failed", list(range(6)))
    assert "Its cluster was refused: a cluster of that name exists" in ended.reason
    assert story.world.runs.stored == {}


def test_an_array_never_deletes_a_cluster_of_its_name_that_is_not_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    spec = own_cluster()
    with monkeypatch.context() as known:
        known.setattr(names, "cluster_for_run", lambda name, run: "shared")
        make_cluster(story)
        array = submit_array(story.world.ports, spec)
    story.rest()
    assert now(story, array).status == "Failed"
    assert story.world.clusters.stored["shared"].status == "Ready"


def test_members_after_a_run_that_failed_are_refused_together_and_are_no_runs() -> None:
    """Else a thousand runs are made only to fail, and people have a thousand mails."""
    story = Story()
    make_cluster(story)
    parent = story.submit(cluster={"name": "shared"}, recovery={"maxAttempts": 1})
    array = submit_array(story.world.ports, array_spec(total=300, parallel=2, after=[parent.id]))
    story.rest()
    story.run_id = parent.id
    story.training()
    story.end("failed", errorKind="unknown", lastStep=20)
    story.sweep()
    ended = now(story, array)
    assert (ended.status, ended.failed) == ("Failed", [0, 1])
    assert ended.refused == list(range(2, 300))
    assert f"run 'ddp-demo' ({parent.id}) is Failed" in ended.reason
    assert "submit the array again" in ended.reason
    assert len(story.world.runs.stored) == 3
    failed = [one.run for one in story.world.notices.events if one.type == "run.failed"]
    assert len(failed) == 3


def test_members_after_a_run_with_policy_end_have_their_turns_however_it_ended() -> None:
    story = Story()
    make_cluster(story)
    parent = story.submit(cluster={"name": "shared"})
    after = {"after": [parent.id], "afterPolicy": "end"}
    array = submit_array(story.world.ports, array_spec(total=3, parallel=1, **after))
    story.rest()
    story.run_id = parent.id
    story.cancel()
    story.rest()
    for index in range(3):
        end_member(story, array, index)
    assert now(story, array).status == "Succeeded"
