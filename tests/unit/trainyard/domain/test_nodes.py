"""A waiting job is decided again and again: its nodes, who is in its way, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.facts import answering
from tests.support.parallelcluster_specs import SUBNET
from tests.support.parallelcluster_specs import spec as parallelcluster_spec
from tests.support.records import NOW, cluster, run, spec
from tests.support.recovery import FIRST, LOST, NODES, ONE, SPARE, TWO, acted, evidence, fact

from trainyard.domain.book import Book
from trainyard.domain.decisions import Decision, Draft
from trainyard.domain.nodes import enough_nodes, usable_nodes
from trainyard.domain.records import Attempt, Cluster, Run
from trainyard.domain.recovery import decide
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.events import Fact

ALICE = {"jobId": "17", "user": "alice", "nodes": [SPARE]}
QUEUED = fact(2, "AttemptQueued", 2, 15, jobId="2", reason="Resources", ahead=[ALICE])
BACK = fact(3, "NodeReturned", None, 90, about=answering(ONE, "i-9"))


def settled(current: Run, facts: list[Fact], seconds: int) -> tuple[Run, list[Decision]]:
    """Decide and act until the run waits."""
    decisions = []
    for _ in range(20):
        decision = decide(current, facts, cluster(), NOW + timedelta(seconds=seconds))
        decisions.append(decision)
        if decision.next == "wait":
            return decision.run, decisions
        current = acted(current, decision, NOW + timedelta(seconds=seconds))
    raise AssertionError([decision.next for decision in decisions])


def waiting() -> Run:
    """Attempt 2, submitted without the lost node, waits since a person's job holds the spare."""
    current, _ = settled(run(status="Running", attempts=[FIRST]), [LOST], 12)
    return current


def test_a_waiting_attempt_may_use_a_node_again_as_soon_as_it_is_back() -> None:
    current, _ = settled(waiting(), [LOST, QUEUED], 20)
    assert current.attempts[-1].exclude == [ONE]
    after, decisions = settled(current, [LOST, QUEUED, BACK], 91)
    [action] = [action for decision in decisions for action in decision.actions]
    assert (action.kind, action.attempt, action.nodes) == ("exclude", 2, [])
    assert action.reason == f"may use {ONE} again"
    assert after.attempts[-1].exclude == []
    assert len(after.attempts) == 2


def test_a_node_that_came_back_before_the_queue_was_seen_is_used_too() -> None:
    after, decisions = settled(
        waiting(), [LOST, fact(3, "NodeReturned", None, 13, about=answering(ONE))], 14
    )
    assert "repair" in [decision.next for decision in decisions]
    assert after.attempts[-1].exclude == []


def test_a_waiting_attempt_excludes_what_is_lost_while_it_waits_and_has_it_replaced_at_once() -> (
    None
):
    current, _ = settled(waiting(), [LOST, QUEUED], 20)
    lost = fact(4, "NodeLost", None, 30, about=evidence(TWO))
    _, decisions = settled(current, [LOST, QUEUED, lost], 31)
    done = {
        (action.kind, action.node, tuple(action.nodes))
        for decision in decisions
        for action in decision.actions
    }
    assert done == {("replace", TWO, ()), ("exclude", "", tuple(sorted([ONE, TWO])))}


def test_the_replacement_is_asked_for_as_soon_as_the_attempt_is_known_to_wait() -> None:
    before = waiting()
    assert [action.kind for action in before.actions] == ["replace"]
    after, decisions = settled(before, [LOST, QUEUED], 20)
    assert [action.kind for decision in decisions for action in decision.actions] == ["replace"]
    assert not after.actions


def test_the_reason_says_who_holds_the_node() -> None:
    current, _ = settled(waiting(), [LOST, QUEUED], 20)
    assert current.reason == f"Attempt 2 waits in Slurm's queue behind job 17 of alice on {SPARE}."
    started = fact(5, "AttemptStarted", 2, 95, jobId="2", nodes=[ONE, TWO])
    after, _ = settled(current, [LOST, QUEUED, BACK, started], 96)
    assert after.reason == f"Attempt 2 starts on {ONE}, {TWO}."


def test_the_reason_says_for_which_node_of_its_own_a_job_waits() -> None:
    started = fact(5, "AttemptStarted", 2, 95, jobId="2", nodes=[ONE, TWO], waitsFor=[TWO])
    after, _ = settled(waiting(), [LOST, BACK, started], 96)
    assert (after.status, after.reason) == (
        "Recovering",
        f"Attempt 2 starts on {ONE}, {TWO}. It waits until {TWO} is set up.",
    )


def test_a_node_under_suspicion_is_used_again_when_a_minute_brought_no_other() -> None:
    suspect = Attempt(number=1, submitted_at=NOW, job_id="1", exclude=[ONE])
    current = run(status="Submitting", attempts=[suspect], excluded_nodes=[ONE])
    early, decisions = settled(current, [], 20)
    assert early.attempts[-1].exclude == [ONE]
    assert decisions[-1].timeout_seconds == 41
    late, _ = settled(early, [], 60)
    assert late.attempts[-1].exclude == []
    assert late.excluded_nodes == [ONE]


def test_a_waiting_attempt_that_lacks_nodes_ends_with_its_budget() -> None:
    current, _ = settled(waiting(), [LOST, QUEUED], 20)
    facts = [LOST, QUEUED, fact(4, "NodeLost", None, 30, about=evidence(TWO))]
    current, decisions = settled(current, facts, 31)
    assert current.status == "WaitingForNode"
    assert decisions[-1].timeout_seconds <= 3601
    ended = decide(current, facts, cluster(), NOW + timedelta(seconds=31 + 3600)).run
    assert ended.outcome == "failed"
    assert ended.problem is not None
    assert ended.problem.code == "nodes-exhausted"
    assert [action.kind for action in ended.actions] == ["cancel-job"]


def test_a_waiting_attempt_that_lacked_nodes_goes_on_waiting_for_others_when_one_is_back() -> None:
    current, _ = settled(waiting(), [LOST, QUEUED], 20)
    facts = [LOST, QUEUED, fact(4, "NodeLost", None, 30, about=evidence(TWO))]
    current, _ = settled(current, facts, 31)
    after, _ = settled(current, [*facts, BACK], 91)
    assert (after.status, after.waiting_since, after.attempts[-1].exclude) == (
        "Recovering",
        None,
        [TWO],
    )


def changed(number: int, seconds: int, *nodes: str) -> Fact:
    return fact(
        number, "NodesChanged", None, seconds, nodes=list(nodes), partitions={"main": len(nodes)}
    )


def test_a_lost_node_that_slurm_no_longer_knows_is_forgotten() -> None:
    book = Book([LOST, changed(4, 60, TWO, SPARE, "ip-127-0-1-15")])
    assert book.lost_nodes() == {}
    assert list(Book([LOST, changed(4, 60, ONE, TWO)]).lost_nodes()) == [ONE]
    assert list(Book([changed(4, 5, TWO, SPARE), LOST]).lost_nodes()) == [ONE]


def test_a_list_too_long_to_keep_still_says_whom_it_removed() -> None:
    def bare(*removed: str) -> Fact:
        return fact(4, "NodesChanged", None, 60, nodesCount=300, removed=list(removed))

    assert list(Book([LOST, bare(TWO)]).lost_nodes()) == [ONE]
    assert Book([LOST, bare(ONE)]).lost_nodes() == {}


def test_however_many_nodes_were_replaced_by_others_the_cluster_is_as_large_as_slurm_says() -> None:
    current, facts = run(status="Running", attempts=[FIRST]), []
    for number in range(1, 8):
        old, new = f"ip-10-0-0-{number}", f"ip-10-0-0-{number + 1}"
        facts += [
            fact(10 * number, "NodeLost", None, 100 * number, about=evidence(old)),
            changed(10 * number + 1, 100 * number + 50, TWO, SPARE, new),
        ]
    draft = Draft(current, Book(facts), cluster(), NOW)
    assert usable_nodes(draft) == 3
    smaller = Draft(current, Book([*facts, changed(99, 900, TWO, SPARE)]), cluster(), NOW)
    assert (usable_nodes(smaller), enough_nodes(smaller)) == (2, True)


def test_an_excluded_node_that_is_gone_does_not_count_against_the_others() -> None:
    current = run(excluded_nodes=["ip-gone"])
    assert usable_nodes(Draft(current, Book([]), cluster(), NOW)) == 2
    assert usable_nodes(Draft(current, Book([changed(1, 5, *NODES)]), cluster(), NOW)) == 3


def queues() -> Cluster:
    """Of two queues: "first" with one node, "other-queue" with two."""
    queue = {"instanceTypes": ["c5.xlarge"], "subnetIds": [SUBNET]}
    found = [{"name": "first", "max": 1, **queue}, {"name": "other-queue", "max": 2, **queue}]
    return cluster(spec=read_cluster_spec(parallelcluster_spec(queues=found)))


def of_first(**changes: Any) -> Run:
    """Of one node of the queue "first"."""
    own = spec()
    return run(spec=own.changed(job=own.job.changed(partition="first", nodes=1)), **changes)


def test_a_lost_node_of_another_queue_is_none_of_the_runs_and_one_of_its_own_counts_unused() -> (
    None
):
    def left(*lost: str) -> int:
        facts = [fact(3, "NodeLost", None, 5, about=evidence(name)) for name in lost]
        return usable_nodes(Draft(of_first(), Book(facts), queues(), NOW))

    assert left("other-queue-st-nodes-1", "other-queue-dy-nodes-2") == 1
    assert left("first-st-nodes-1") == 0


def test_where_every_node_of_a_queue_is_lost_a_run_waits_and_uses_no_attempt_up() -> None:
    node = "first-st-nodes-1"
    lost = fact(3, "NodeLost", None, 5, about=evidence(node))
    waiting = decide(of_first(status="Accepted"), [lost], queues(), NOW + timedelta(seconds=6))
    assert (waiting.run.status, waiting.run.attempts) == ("WaitingForNode", [])
    back = fact(4, "NodeReturned", None, 30, about=answering(node))
    after = decide(waiting.run, [lost, back], queues(), NOW + timedelta(seconds=31))
    assert [attempt.exclude for attempt in after.run.attempts] == [[]]


def test_a_run_that_waits_for_a_node_goes_on_when_one_of_another_name_takes_its_place() -> None:
    lost = [LOST, fact(4, "NodeLost", None, 11, about=evidence(SPARE))]
    current, _ = settled(run(status="Running", attempts=[FIRST]), lost, 12)
    assert current.status == "WaitingForNode"
    after, decisions = settled(current, [*lost, changed(5, 90, TWO, SPARE, "ip-127-0-1-15")], 91)
    assert "submit" in [decision.next for decision in decisions]
    assert after.attempts[-1].exclude == [SPARE]
