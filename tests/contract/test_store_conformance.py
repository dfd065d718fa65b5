"""DynamoDB (on moto) and the in-memory twins pass the same tests of Runs, Clusters and Waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from tests.support import store_implementations
from tests.support.store_records import at, fact, heartbeat, new_cluster, numbered_run

from trainyard.domain import errors
from trainyard.domain.listing import Wanted
from trainyard.domain.records import Attempt, Checkpoint, Run, TimelineEntry, Wait
from trainyard.outside.clusters import Clusters
from trainyard.outside.runs import Runs
from trainyard.outside.waits import Waits


@dataclass
class Stores:
    runs: Runs
    clusters: Clusters
    waits: Waits


RUNNING = Wanted(statuses=frozenset({"Running"}))
#: Stories of durability that the twins do not tell.
#: They forget no key, and never meet a straggler of an earlier generation.
DURABLE_ONLY = {
    "test_a_key_is_forgotten_after_a_day",
    "test_the_name_of_a_deleted_cluster_may_be_used_again_by_the_next_generation",
    "test_touching_a_cluster_never_moves_time_backwards_nor_the_version",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stores" in metafunc.fixturenames:
        durable = metafunc.function.__name__ in DURABLE_ONLY
        names = [name for name in store_implementations.NAMES if not (durable and name == "memory")]
        metafunc.parametrize("stores", names, indirect=True)


@pytest.fixture
def stores(request: pytest.FixtureRequest, dynamodb: Any) -> Stores:
    return Stores(*store_implementations.opened(request.param, dynamodb))


def create(stores: Stores, made: Run) -> Run:
    return stores.runs.create(made, idempotency_key=None, body_hash="h")


# runs


def test_a_run_comes_back_exactly_as_it_was_written(stores: Stores) -> None:
    made = create(
        stores,
        numbered_run(
            1,
            reason='"quotes", ünïcode and 0.1',
            attempts=[Attempt(number=1, nodes=["ip-10-0-0-1"], submitted_at=at(3))],
        ),
    )
    assert stores.runs.get(made.id) == made


def test_an_unknown_run_is_not_found(stores: Stores) -> None:
    with pytest.raises(errors.RunNotFound):
        stores.runs.get("run-none")


def test_the_same_key_and_body_give_the_same_run_again(stores: Stores) -> None:
    first = stores.runs.create(numbered_run(1), idempotency_key="key", body_hash="h")
    assert stores.runs.create(numbered_run(2), idempotency_key="key", body_hash="h") == first
    with pytest.raises(errors.RunNotFound):
        stores.runs.get(numbered_run(2).id)


def test_the_same_key_gives_the_run_as_it_is_now(stores: Stores) -> None:
    first = stores.runs.create(numbered_run(1), idempotency_key="key", body_hash="h")
    now = stores.runs.put(first.model_copy(update={"status": "Running"}))
    assert stores.runs.create(numbered_run(2), idempotency_key="key", body_hash="h") == now


def test_the_same_key_with_another_body_is_a_conflict(stores: Stores) -> None:
    stores.runs.create(numbered_run(1), idempotency_key="key", body_hash="h")
    with pytest.raises(errors.IdempotencyConflict):
        stores.runs.create(numbered_run(2), idempotency_key="key", body_hash="other")


def test_a_key_leads_to_its_run_as_it_is_now(stores: Stores) -> None:
    assert stores.runs.by_key("key", "h", at=at(0)) is None
    first = stores.runs.create(numbered_run(1), idempotency_key="key", body_hash="h")
    now = stores.runs.put(first.model_copy(update={"status": "Failed"}))
    assert stores.runs.by_key("key", "h", at=at(3600)) == now
    with pytest.raises(errors.IdempotencyConflict):
        stores.runs.by_key("key", "other", at=at(3600))


def test_a_key_is_forgotten_after_a_day(stores: Stores) -> None:
    stores.runs.create(numbered_run(1), idempotency_key="key", body_hash="h")
    assert stores.runs.by_key("key", "other", at=at(25 * 3600)) is None, (
        "though the item is still there: DynamoDB takes days"
    )
    later = numbered_run(2).model_copy(update={"created_at": at(25 * 3600)})
    assert stores.runs.create(later, idempotency_key="key", body_hash="other").id == later.id


def test_a_write_from_an_old_version_is_a_conflict(stores: Stores) -> None:
    made = create(stores, numbered_run(1))
    newer = stores.runs.put(made.model_copy(update={"status": "Running"}))
    assert newer.version == made.version + 1
    with pytest.raises(errors.ConflictError):
        stores.runs.put(made.model_copy(update={"status": "Failed"}))
    assert stores.runs.get(made.id) == newer


def test_the_lines_of_a_write_are_there_if_and_only_if_it_is(stores: Stores) -> None:
    made = create(stores, numbered_run(1))
    lines = [
        TimelineEntry(
            id=f"e{number}", at=at(number), kind="decision", type="T", message=f"line {number}"
        )
        for number in range(4)
    ]
    stores.runs.note(made.id, lines[1])
    changed = stores.runs.put(made.model_copy(update={"status": "Running"}), lines[:3])
    assert stores.runs.get(made.id) == changed
    with pytest.raises(errors.ConflictError):
        stores.runs.put(made.model_copy(update={"status": "Failed"}), lines)
    assert stores.runs.get(made.id).status == "Running"
    told = stores.runs.timeline(made.id, limit=10, token=None).items
    assert [entry.id for entry in told] == ["e0", "e1", "e2"]
    stores.runs.put(changed, lines[:3])
    assert len(stores.runs.timeline(made.id, limit=10, token=None).items) == 3


def test_runs_are_listed_newest_first_page_by_page(stores: Stores) -> None:
    for number in range(1, 8):
        create(stores, numbered_run(number, status="Succeeded" if number % 2 else "Running"))
    seen, token = [], None
    while True:
        page = stores.runs.list(limit=3, token=token)
        assert len(page.items) <= 3
        seen += [item.id for item in page.items]
        token = page.next_token
        if token is None:
            break
    assert seen == [numbered_run(number).id for number in range(7, 0, -1)]


def test_runs_are_listed_by_status_with_tokens_of_their_own(stores: Stores) -> None:
    for number in range(1, 6):
        create(stores, numbered_run(number, status="Running" if number < 5 else "Failed"))
    page = stores.runs.list(limit=2, token=None, wanted=RUNNING)
    assert [item.id for item in page.items] == [numbered_run(4).id, numbered_run(3).id]
    rest = stores.runs.list(limit=2, token=page.next_token, wanted=RUNNING)
    assert [item.id for item in rest.items] == [numbered_run(2).id, numbered_run(1).id]
    assert rest.next_token is None
    failed = stores.runs.list(limit=9, token=None, wanted=Wanted(statuses=frozenset({"Failed"})))
    assert [item.id for item in failed.items] == [numbered_run(5).id]
    with pytest.raises(errors.BadPageToken):
        stores.runs.list(limit=2, token=page.next_token)


@pytest.mark.parametrize(
    "token", ["", "x", "null", "[1, null]", "%%%", "bm9wZQ", "WzEsMl0", "é", "[" * 5000]
)
def test_a_made_up_page_token_is_refused(stores: Stores, token: str) -> None:
    with pytest.raises(errors.BadPageToken):
        stores.runs.list(limit=2, token=token)


def test_active_runs_are_those_that_are_not_over(stores: Stores) -> None:
    for number, status in enumerate(["Running", "Succeeded", "Exporting", "Cancelled"], start=1):
        create(stores, numbered_run(number, status=status))
    assert {item.id for item in stores.runs.active()} == {numbered_run(1).id, numbered_run(3).id}


def test_a_run_that_ends_leaves_the_active_set_and_may_come_back(stores: Stores) -> None:
    ended = stores.runs.put(create(stores, numbered_run(1)).model_copy(update={"status": "Failed"}))
    assert stores.runs.active() == []
    resumed = stores.runs.put(ended.model_copy(update={"status": "Submitting", "generation": 2}))
    assert stores.runs.active() == [resumed]


def test_the_active_runs_of_a_cluster(stores: Stores) -> None:
    create(stores, numbered_run(1, cluster_name="shared"))
    create(stores, numbered_run(2, cluster_name="shared", status="Succeeded"))
    create(stores, numbered_run(3, cluster_name="other"))
    assert [item.id for item in stores.runs.on_cluster("shared")] == [numbered_run(1).id]


def test_a_fact_is_recorded_once_with_its_line(stores: Stores) -> None:
    made = create(stores, numbered_run(1))
    assert stores.runs.record(made.id, fact(1, 5, attempt=1, step=100), "stepped") is True
    assert stores.runs.record(made.id, fact(1, 5, attempt=1, step=100), "stepped") is False
    assert stores.runs.facts(made.id) == [fact(1, 5, attempt=1, step=100)]
    (line,) = stores.runs.timeline(made.id, limit=10, token=None).items
    assert (line.id, line.kind, line.type, line.message, line.at, line.attempt) == (
        fact(1).id,
        "fact",
        "AttemptStepped",
        "stepped",
        at(5),
        1,
    )


def test_facts_come_in_order_and_may_be_asked_for_one_attempt(stores: Stores) -> None:
    made = create(stores, numbered_run(1))
    for number, second, attempt in [(3, 1, 2), (1, 9, 1), (2, 1, None), (4, 4, 2)]:
        stores.runs.record(made.id, fact(number, second, attempt), "")
    assert [int(item.id) for item in stores.runs.facts(made.id)] == [2, 3, 4, 1]
    assert [int(item.id) for item in stores.runs.facts(made.id, attempt=2)] == [2, 3, 4]


def test_a_timeline_is_paged_oldest_first_and_an_entry_is_noted_once(stores: Stores) -> None:
    made = create(stores, numbered_run(1))
    for number in (2, 1, 3):
        entry = TimelineEntry(
            id=f"e{number}",
            at=at(number),
            kind="decision",
            type="Resume",
            message=f"m{number}",
            data={"n": number},
        )
        stores.runs.note(made.id, entry)
        stores.runs.note(made.id, entry.model_copy(update={"at": at(90)}))
    page = stores.runs.timeline(made.id, limit=2, token=None)
    rest = stores.runs.timeline(made.id, limit=2, token=page.next_token)
    assert [[item.message for item in part.items] for part in (page, rest)] == [
        ["m1", "m2"],
        ["m3"],
    ]
    assert rest.next_token is None
    with pytest.raises(errors.BadPageToken):
        stores.runs.timeline(create(stores, numbered_run(2)).id, limit=2, token=page.next_token)


def test_checkpoints_are_paged_newest_first_and_a_rejected_one_stays_rejected(
    stores: Stores,
) -> None:
    made = create(stores, numbered_run(1))
    whole = [
        Checkpoint(step=step, attempt=1, path=f"c/{step}", bytes=10, files=1, committed_at=at(step))
        for step in (5, 1000, 30)
    ]
    for checkpoint in whole:
        stores.runs.put_checkpoint(made.id, checkpoint)
        stores.runs.put_checkpoint(made.id, checkpoint)
    torn = whole[1].model_copy(update={"status": "rejected", "reason": "hash"})
    stores.runs.put_checkpoint(made.id, torn)
    stores.runs.put_checkpoint(made.id, whole[1])
    page = stores.runs.checkpoints(made.id, limit=2, token=None)
    assert page.items == [torn, whole[2]]
    assert stores.runs.checkpoints(made.id, limit=2, token=page.next_token).items == [whole[0]]


def test_copies_of_a_programs_own_checkpoints_may_be_of_one_step(stores: Stores) -> None:
    made = create(stores, numbered_run(1))
    own = Checkpoint(step=5, attempt=1, path="c/5", bytes=10, files=1, committed_at=at(5))
    names = ("watched/a/save-1", "watched/b/save-1", "work/a.pt")
    copies = [own.model_copy(update={"path": name}) for name in names]
    copies[2] = copies[2].model_copy(update={"status": "rejected", "reason": "it ends early"})
    for checkpoint in [*copies, own, *copies]:
        stores.runs.put_checkpoint(made.id, checkpoint)
    listed = stores.runs.checkpoints(made.id, limit=9, token=None).items
    assert listed == [*reversed(copies), own]
    pruned = copies[0].model_copy(update={"status": "pruned"})
    stores.runs.put_checkpoint(made.id, pruned)
    assert pruned in stores.runs.checkpoints(made.id, limit=9, token=None).items


@pytest.mark.parametrize(
    "order",
    list(permutations(["whole", "pruned"])) + list(permutations(["whole", "pruned", "rejected"])),
)
def test_in_any_order_a_pruned_checkpoint_keeps_its_details_and_a_rejected_one_its_reason(
    stores: Stores, order: tuple[str, ...]
) -> None:
    made = create(stores, numbered_run(1))
    whole = Checkpoint(step=5, attempt=1, path="c/5", bytes=10, files=1, committed_at=at(5))
    bare = whole.model_copy(update={"bytes": 0, "files": 0, "committed_at": at(9)})
    told = {
        "whole": whole, "pruned": bare.model_copy(update={"status": "pruned"}),
        "rejected": bare.model_copy(update={"status": "rejected", "reason": "hash"}),
    }  # fmt: skip
    for status in [*order, *order]:
        stores.runs.put_checkpoint(made.id, told[status])
    expected = (
        told["rejected"] if "rejected" in order else whole.model_copy(update={"status": "pruned"})
    )
    assert stores.runs.checkpoints(made.id, limit=2, token=None).items == [expected]


# clusters


def test_a_cluster_comes_back_as_it_was_written_and_its_name_is_taken(stores: Stores) -> None:
    made = stores.clusters.create(new_cluster())
    assert stores.clusters.get("demo") == made
    with pytest.raises(errors.ClusterExists):
        stores.clusters.create(new_cluster())
    with pytest.raises(errors.ClusterNotFound):
        stores.clusters.get("none")


def test_the_name_of_a_deleted_cluster_may_be_used_again_by_the_next_generation(
    stores: Stores,
) -> None:
    first = stores.clusters.create(new_cluster())
    stores.clusters.put(first.model_copy(update={"status": "Deleted"}))
    again = stores.clusters.create(new_cluster(second=60))
    assert again.generation == first.generation + 1
    assert stores.clusters.get("demo") == again
    with pytest.raises(errors.ConflictError):
        stores.clusters.put(first.model_copy(update={"status": "Failed"}))


def test_a_successor_takes_the_place_of_a_cluster_with_nothing_of_its_own(stores: Stores) -> None:
    first = stores.clusters.create(new_cluster())
    beat = first.created_at + timedelta(seconds=30)
    stores.clusters.touch("demo", heartbeat_at=beat)
    changes = {"generation": 2, "version": first.version + 1}
    after = new_cluster(second=60).changed(**changes)
    assert stores.clusters.succeed(first, after) == after
    assert stores.clusters.get("demo") == after
    assert stores.clusters.get("demo").last_heartbeat_at is None
    with pytest.raises(errors.ConflictError):
        stores.clusters.succeed(first, after)
    with pytest.raises(errors.ConflictError):
        stores.clusters.put(first.changed(status="Failed"))
    assert [one.generation for one in stores.clusters.active()] == [2]


def test_a_failed_cluster_that_still_exists_keeps_its_name(stores: Stores) -> None:
    made = stores.clusters.create(new_cluster())
    stores.clusters.put(
        made.model_copy(
            update={"status": "Failed", "arn": "arn:aws:sagemaker:us-east-1:1:cluster/abcdefghijkl"}
        )
    )
    with pytest.raises(errors.ClusterExists):
        stores.clusters.create(new_cluster(second=60))


def test_a_cluster_write_from_an_old_version_is_a_conflict(stores: Stores) -> None:
    made = stores.clusters.create(new_cluster())
    stores.clusters.put(made.model_copy(update={"status": "Creating"}))
    with pytest.raises(errors.ConflictError):
        stores.clusters.put(made.model_copy(update={"status": "Ready"}))


def test_active_clusters_are_those_not_deleted(stores: Stores) -> None:
    for name, status in [("a", "Ready"), ("b", "Deleted"), ("c", "Failed")]:
        made = stores.clusters.create(new_cluster(name))
        stores.clusters.put(made.model_copy(update={"status": status}))
    assert {item.name for item in stores.clusters.active()} == {"a", "c"}


def test_clusters_are_listed_page_by_page(stores: Stores) -> None:
    for number in range(5):
        stores.clusters.create(new_cluster(f"c{number}", number))
    page = stores.clusters.list(limit=3, token=None)
    rest = stores.clusters.list(limit=3, token=page.next_token)
    assert {item.name for item in [*page.items, *rest.items]} == {
        f"c{number}" for number in range(5)
    }
    assert (len(page.items), rest.next_token) == (3, None)
    with pytest.raises(errors.BadPageToken):
        stores.runs.list(limit=3, token=page.next_token)


def test_touching_a_cluster_never_moves_time_backwards_nor_the_version(stores: Stores) -> None:
    made = stores.clusters.create(new_cluster())
    stores.clusters.touch("demo", used_at=at(10), heartbeat_at=at(20))
    stores.clusters.touch("demo", used_at=at(5), heartbeat_at=at(30))
    stores.clusters.touch("none", used_at=at(5))
    now = stores.clusters.get("demo")
    assert (now.last_used_at, now.last_heartbeat_at, now.version) == (at(10), at(30), made.version)
    stores.clusters.put(made.model_copy(update={"status": "Ready"}))
    assert stores.clusters.get("demo").last_heartbeat_at == at(30)


def test_a_fact_of_a_cluster_is_recorded_once(stores: Stores) -> None:
    stores.clusters.create(new_cluster())
    assert stores.clusters.record("demo", fact(1, 4, nodes=["a"])) is True
    assert stores.clusters.record("demo", fact(1, 4, nodes=["a"])) is False
    stores.clusters.record("demo", fact(2, 3))
    assert [int(item.id) for item in stores.clusters.facts("demo")] == [2, 1]


def test_heartbeats_are_kept_once_and_read_oldest_first(stores: Stores) -> None:
    for number, second in [(1, 0), (2, 60), (3, 120), (3, 120), (4, 180)]:
        stores.clusters.put_heartbeat(heartbeat(number, second))
    assert stores.clusters.heartbeats("demo", since=at(60), limit=10) == [
        heartbeat(2, 60),
        heartbeat(3, 120),
        heartbeat(4, 180),
    ]
    assert stores.clusters.heartbeats("demo", since=at(0), limit=2) == [
        heartbeat(3, 120),
        heartbeat(4, 180),
    ]
    assert stores.clusters.heartbeats("demo", since=at(0), until=at(120), limit=2) == [
        heartbeat(2, 60),
        heartbeat(3, 120),
    ]


# waits


def wait(token: str = "t1", owner: str = "run:1") -> Wait:
    return Wait(owner=owner, kind="outcome", token=token, since=at(1))


def test_a_wait_is_replaced_by_the_next_of_its_owner(stores: Stores) -> None:
    assert stores.waits.get("run:1") is None
    stores.waits.store(wait("t1"))
    stores.waits.store(wait("t2"))
    assert stores.waits.get("run:1") == wait("t2")


def test_a_wait_that_began_earlier_does_not_replace_a_later_one(stores: Stores) -> None:
    later = wait("t2").model_copy(update={"since": at(2)})
    assert stores.waits.store(later) is True
    assert stores.waits.store(wait("t1")) is False
    assert stores.waits.get("run:1") == later
    assert stores.waits.store(wait("t2")) is True
    assert stores.waits.store(wait("t3").model_copy(update={"since": at(1)})) is True


def test_only_the_stored_token_is_marked_as_woken(stores: Stores) -> None:
    stores.waits.store(wait("t2"))
    assert stores.waits.mark_woken("run:1", "t1", at(5)) is False
    assert stores.waits.mark_woken("run:2", "t2", at(5)) is False
    assert stores.waits.mark_woken("run:1", "t2", at(5)) is True
    stored = stores.waits.get("run:1")
    assert stored is not None
    assert stored.woken_at == at(5)


def test_a_wait_is_cleared_only_by_its_own_token(stores: Stores) -> None:
    stores.waits.store(wait("t2"))
    stores.waits.clear("run:1", "t1")
    assert stores.waits.get("run:1") is not None
    stores.waits.clear("run:1", "t2")
    stores.waits.clear("run:1", "t2")
    assert stores.waits.get("run:1") is None


def test_all_waits_are_found(stores: Stores) -> None:
    for owner in ("run:1", "run:2", "cluster:demo"):
        stores.waits.store(wait(owner=owner))
    stores.waits.clear("run:2", "t1")
    assert {item.owner for item in stores.waits.all()} == {"run:1", "cluster:demo"}
