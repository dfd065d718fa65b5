"""What AWS's refusals are, and which way a cluster is tried next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.cluster_facts import fact
from tests.support.records import NOW
from tests.support.spec_parts import cluster_spec

from trainyard.domain import capacity
from trainyard.domain.clusters import Seen, judge
from trainyard.domain.problems import problem
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus
from trainyard_contracts.cluster_specs import read_cluster_spec

NO_CAPACITY = (
    "We currently do not have sufficient capacity to launch new ml.g5.8xlarge instances. "
    "Please try again."
)
P5, P4, M5 = "ml.p5.48xlarge", "ml.p4d.24xlarge", "ml.m5.large"
WAYS: list[dict[str, Any]] = [
    {"instanceTypes": [P5, P4], "tryForSeconds": 300},
    {"market": "spot", "subnetIds": ["subnet-0aaaaaaaaaaaaaaaa"]},
]


def tried(seconds: int = 3600, ways: list[dict[str, Any]] | None = None) -> Cluster:
    """A cluster in its first try."""
    spec = read_cluster_spec(cluster_spec("c", capacity=ways or WAYS))
    first = capacity.first_try(spec, NOW)
    assert first is not None
    return Cluster(
        name="c",
        spec=spec.ways[0].spec,
        asked=spec,
        tries=[first],
        try_until=NOW + timedelta(seconds=seconds),
        status="Creating",
        arn="arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefabcdef",
        created_at=NOW,
        updated_at=NOW,
    )


def without_capacity(cluster: Cluster, after: int) -> Cluster:
    found = cluster.changed(problem=problem("no-capacity", "AWS said so."))
    return capacity.ended(found, "AWS said so.", NOW + timedelta(seconds=after))


def test_the_ways_of_a_spec_in_their_order() -> None:
    spec = read_cluster_spec(cluster_spec("c", capacity=WAYS))
    assert [way.words for way in spec.ways] == [
        f"{P5}, on demand",
        f"{P4}, on demand",
        f"{M5}, spot, in subnet-0aaaaaaaaaaaaaaaa",
    ]
    last = spec.ways[-1].spec
    assert last.network is not None
    assert last.network.subnet_ids == ["subnet-0aaaaaaaaaaaaaaaa"]
    assert last.instance_groups[0] == spec.instance_groups[0]
    assert [way.try_for_seconds for way in spec.ways] == [300, 300, 600]
    assert all(not way.spec.ways for way in spec.ways)


def test_the_next_way_follows_at_once_and_the_next_round_after_a_pause() -> None:
    cluster, begins, names = tried(), [], []
    for number in range(1, 8):
        over = without_capacity(cluster, 100 * number)
        following = capacity.next_try(over, NOW + timedelta(seconds=100 * number))
        assert following is not None
        assert following.number == number + 1
        begins.append((following.began_at - NOW).total_seconds() - 100 * number)
        names.append(following.way.split(",")[0])
        cluster = capacity.successor(over, following, following.began_at)
    assert [begins[at] for at in (0, 1, 3, 4, 6)] == [0] * 5
    assert 60 <= begins[2] <= 75
    assert 120 <= begins[5] <= 150
    assert names == [P4, M5, P5, P4, M5, P5, P4]
    assert cluster.generation == 8
    assert (cluster.arn, cluster.problem, cluster.create_requested) == (None, None, False)


@pytest.mark.parametrize(
    "change",
    [
        {"given_up": True},
        {"problem": problem("cluster-failed", "Its scripts failed.")},
        {"problem": None},
    ],
)
def test_only_want_of_capacity_leads_to_another_try(change: dict[str, Any]) -> None:
    over = without_capacity(tried(), 10)
    assert capacity.next_try(over, NOW) is not None
    assert capacity.next_try(over.changed(**change), NOW) is None


def test_pauses_grow_to_an_hour_and_differ_from_cluster_to_cluster() -> None:
    def begins(name: str, number: int) -> float:
        over = without_capacity(tried(seconds=10**6), 0).changed(name=name)
        last = over.tries[-1].changed(number=number)
        following = capacity.next_try(over.changed(tries=[last]), NOW)
        assert following is not None
        return (following.began_at - NOW).total_seconds()

    pauses = [begins("demo", 3 * round_) for round_ in range(1, 12)]
    assert pauses[:6] == sorted(pauses[:6])
    assert all(60 * 2**at <= one <= 75 * 2**at for at, one in enumerate(pauses[:6]))
    assert all(3600 <= one <= 4500 for one in pauses[7:])
    assert begins("demo", 3) == begins("demo", 3), "it is the same at each look"
    assert len({begins(f"demo-{number}", 30) for number in range(20)}) > 15


def test_the_last_round_begins_before_the_deadline_and_not_only_after_a_whole_pause() -> None:
    over = without_capacity(tried(seconds=1000), 300).changed(name="demo")
    late = over.changed(tries=[over.tries[-1].changed(number=15)])
    following = capacity.next_try(late, NOW + timedelta(seconds=300))
    assert following is not None, "its pause would be longer than what is left"
    assert (following.began_at - NOW).total_seconds() == 940


def test_no_try_begins_after_the_deadline() -> None:
    over = without_capacity(tried(seconds=60), 59)
    assert capacity.next_try(over, NOW + timedelta(seconds=59)) is not None
    assert capacity.next_try(over, NOW + timedelta(seconds=60)) is None
    late = capacity.successor(over, capacity.next_try(over, NOW) or over.tries[0], NOW)
    assert capacity.next_try(without_capacity(late, 61), NOW) is None


def test_a_record_keeps_the_first_and_the_newest_tries() -> None:
    cluster = tried(seconds=10**7)
    for number in range(1, 101):
        over = without_capacity(cluster, number)
        following = capacity.next_try(over, NOW)
        assert following is not None
        cluster = capacity.successor(over, following, NOW)
    numbers = [one.number for one in cluster.tries]
    assert len(numbers) == capacity.MOST_TRIES
    assert (numbers[0], numbers[1], numbers[-1]) == (1, 101 - capacity.MOST_TRIES + 2, 101)


def told(after: int, words: str = NO_CAPACITY) -> Any:
    return fact("ClusterEvent", description="Failed to provision", failureMessage=words).changed(
        at=NOW + timedelta(seconds=after), id=f"event-{after}"
    )


def test_a_try_ends_so_long_after_awss_first_word_and_not_before() -> None:
    seen, events = Seen(BackendStatus.IN_SERVICE), [told(50), told(290)]
    soon, late = (NOW + timedelta(seconds=50 + seconds) for seconds in (299, 300))
    waits = judge(tried(), events, seen, soon, 600)
    assert (waits.next, waits.timeout_seconds) == ("await", 2)
    ended = judge(tried(), events, seen, late, 600)
    assert ended.next == "fail"
    assert ended.problem is not None
    assert ended.problem.code == "no-capacity"
    assert "For 5 minutes AWS said: We currently do not have" in ended.problem.detail


def test_a_cluster_whose_nodes_boot_for_long_is_not_left() -> None:
    seen = Seen(BackendStatus.IN_SERVICE)
    other = told(5, "The subnet has no free address.")
    assert judge(tried(), [other], seen, NOW + timedelta(seconds=3599), 60).next == "await"
    assert judge(tried(), [other], seen, NOW + timedelta(seconds=3600), 60).next == "fail"


def test_a_cluster_waits_for_its_turn_and_is_created_then() -> None:
    turn = NOW + timedelta(seconds=90)
    waiting = tried().changed(status="Pending", arn=None, not_before=turn)
    assert judge(waiting, [], None, NOW, 600).next == "await"
    assert judge(waiting, [], None, NOW, 600).timeout_seconds == 60
    assert judge(waiting, [], None, turn, 600).next == "create"


def test_the_last_problem_names_every_way_with_its_last_word() -> None:
    first = without_capacity(tried(), 10)
    following = capacity.next_try(first, NOW)
    assert following is not None
    last = without_capacity(capacity.successor(first, following, NOW), 20)
    found = capacity.exhausted(last)
    assert found is not None
    assert found.detail == (
        f"None of 2 tries found capacity. {P5}, on demand: AWS said so.; "
        f"{P4}, on demand: AWS said so."
    )


def test_what_a_stack_says_of_its_wait_counts_less_than_what_ec2_had_said() -> None:
    ways = [{"tryForSeconds": 86400}, {"market": "spot"}]
    wait = "WaitCondition timed out. Received 0 conditions when expecting 1"
    seen = Seen(BackendStatus.FAILED, wait)
    late = NOW + timedelta(seconds=300)
    found = judge(tried(ways=ways), [told(50, "InsufficientInstanceCapacity")], seen, late, 600)
    assert found.problem is not None
    assert found.problem.code == "no-capacity"
    assert found.problem.detail == f"{wait} AWS had said: InsufficientInstanceCapacity"
    alone = judge(tried(ways=ways), [], seen, late, 600)
    assert alone.problem is not None
    assert alone.problem.code == "cluster-failed"


def test_a_quota_ends_the_making_at_once_and_says_what_to_do() -> None:
    seen = Seen(BackendStatus.CREATING)
    found = judge(tried(), [told(5, "VcpuLimitExceeded")], seen, NOW + timedelta(seconds=6), 600)
    assert found.next == "fail"
    assert found.problem is not None
    assert found.problem.code == "backend-rejected"
    assert "ask for a higher quota in Service Quotas" in found.problem.detail
    assert (
        capacity.next_try(without_capacity(tried(), 6).changed(problem=found.problem), NOW) is None
    )


def test_a_permission_that_is_missing_counts_once_it_was_said_for_minutes() -> None:
    """A role that was made a moment ago may not be known everywhere."""
    seen, denied = Seen(BackendStatus.CREATING), "UnauthorizedOperation"
    soon = [told(5, denied), told(65, denied)]
    assert judge(tried(), soon, seen, NOW + timedelta(seconds=70), 600).next == "await"
    late = [*soon, told(305, denied)]
    found = judge(tried(), late, seen, NOW + timedelta(seconds=306), 600)
    assert found.problem is not None
    assert "let the role do what the message names" in found.problem.detail
