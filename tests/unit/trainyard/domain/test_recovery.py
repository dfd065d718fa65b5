"""The recovery policy as properties: whatever facts come in whatever order, its promises hold."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.records import NOW, cluster, run, spec
from tests.support.recovery import NODES, acted, evidence, fact

from trainyard.domain.decisions import Decision
from trainyard.domain.facts import attempt_of
from trainyard.domain.node_evidence import evidence_of
from trainyard.domain.records import Attempt, Export, Run
from trainyard.domain.recovery import decide
from trainyard_contracts.events import AttemptEnded, Fact

TWO_NODES = st.lists(st.sampled_from(NODES), min_size=2, max_size=2, unique=True)
OUTCOMES = ["succeeded", "failed", "failed", "failed", "cancelled"]
ERROR_KINDS = [
    "signal", "python-error", "out-of-memory", "node", "checkpoint", "unknown", None,
]  # fmt: skip


def an_end(draw: st.DrawFn, node: str, step: int) -> dict[str, Any]:
    return {
        "jobId": "1",
        "outcome": draw(st.sampled_from(OUTCOMES)),
        "errorKind": draw(st.sampled_from(ERROR_KINDS)),
        "error": draw(st.sampled_from(["ValueError: bad", None])),
        "exitCode": draw(st.sampled_from([0, 1, 2, 137, None]) | st.integers(0, 255)),
        "signal": draw(st.sampled_from([9, 11, 15, None])),
        "failedNode": draw(st.sampled_from([*NODES, None])),
        "lasting": draw(st.booleans()),
        "memory": draw(st.sampled_from(["host", "device", None])),
        "lastStep": draw(st.sampled_from([step, None])),
        "stepSource": draw(st.sampled_from(["program", "log"])),
        "nodes": [
            evidence(
                node,
                draw(st.sampled_from(["silent", "linked"])),
                draw(st.sampled_from(["down", "up"])),
            )
        ],
    }


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    """Any facts an agent may report, of any attempt, in any order."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        attempt, seconds, node = (
            draw(st.integers(1, 4)),
            draw(st.integers(0, 300)),
            draw(st.sampled_from(NODES)),
        )
        kind = draw(st.sampled_from([
            "AttemptQueued", "AttemptStarted", "AttemptStepped", "AttemptEnded", "NodeLost",
            "NodeReturned", "NodesChanged", "CheckpointCommitted", "CheckpointRejected",
            "CancelRequested", "ExportRequested", "AgentSilent", "ClusterLost",
            "CheckpointRestored", "WatchWarned", "ResultsSynced", "SyncFailed", "RunRestored",
            "TeamBudgetSpent",
        ]))  # fmt: skip
        step = draw(st.integers(0, 50))
        path = f"checkpoints/{step}"
        data: dict[str, Any] = {
            "AttemptQueued": {"jobId": "1", "reason": "Resources",
                              "ahead": [{"jobId": "17", "user": "alice", "nodes": [node]}]},
            "AttemptStarted": {"jobId": "1", "nodes": draw(TWO_NODES)},
            "AttemptStepped": {"step": step, "resumedFrom": None, "steppedAt": NOW.isoformat(),
                               "source": draw(st.sampled_from(["program", "log"]))},
            "AttemptEnded": an_end(draw, node, step),
            "NodesChanged": {"nodes": [*NODES[:2], node],
                             "partitions": {"main": len({*NODES[:2], node})}},
            "NodeLost": {"lost": evidence(node)}, "NodeReturned": {"returned": node},
            "CheckpointCommitted": {"step": step, "path": path},
            "CheckpointRejected": {"step": step, "path": path},
            "CheckpointRestored": {"source": "work/a.pt", "path": path, "reason": "torn"},
            "WatchWarned": {"reason": "nothing matches"},
            "ResultsSynced": {"everySeconds": 60, "objects": 1, "bytes": 1, "lastStep": step},
            "SyncFailed": {"trouble": "unreachable", "reason": "no route"},
            "RunRestored": {"source": "sync", "ageSeconds": 60, "step": step},
            "CancelRequested": {"life": 1}, "ExportRequested": {"life": 1},
            "TeamBudgetSpent": {"life": 1, "budget": "vision", "reason": "It is used up."},
            "AgentSilent": {"silent": evidence(node, "silent", "up")},
            "ClusterLost": {"reason": "gone"},
        }[kind]  # fmt: skip
        about_attempt = kind.startswith(
            ("Attempt", "Checkpoint", "Watch", "Results", "Sync", "RunRestored")
        )
        found.append(fact(number, kind, attempt if about_attempt else None, seconds, **data))
    return found


def life(found: list[Fact]) -> list[tuple[Run, Decision]]:
    """Decide and act until the run waits or ends, as facts come in one after the other."""
    current, steps = run(), []
    for count in range(len(found) + 1):
        now = NOW + timedelta(seconds=400 + count)
        for _ in range(60):
            decision = decide(current, found[:count], cluster(), now)
            steps.append((current, decision))
            if decision.next == "wait" and decision.run == current:
                break
            current = acted(current, decision, now)
            if current.terminal:
                return steps
        else:
            raise AssertionError(
                f"the run never rests: {[decision.next for _, decision in steps[-8:]]}"
            )
    return steps


relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@relaxed
@given(facts())
def test_deciding_twice_on_the_same_state_is_the_same_and_the_second_time_adds_nothing(
    found: list[Fact],
) -> None:
    for before, decision in life(found):
        now = NOW + timedelta(seconds=500)
        first, again = decide(before, found, cluster(), now), decide(before, found, cluster(), now)
        assert first == again
        after = decide(first.run, found, cluster(), now)
        assert len(after.run.attempts) == len(first.run.attempts)
        assert {action.id for action in after.run.actions} == {
            action.id for action in first.run.actions
        }
        assert len(after.run.incidents) == len(first.run.incidents)
        del decision


@relaxed
@given(facts(), st.randoms())
def test_the_same_facts_twice_and_shuffled_decide_the_same(found: list[Fact], shuffle: Any) -> None:
    twice = found * 2
    shuffle.shuffle(twice)
    now = NOW + timedelta(seconds=500)
    assert decide(run(), twice, cluster(), now) == decide(run(), found, cluster(), now)


@relaxed
@given(facts())
def test_budgets_are_never_overdrawn(found: list[Fact]) -> None:
    tight = spec(maxAttempts=2)
    current = run(spec=tight)
    for _ in range(60):
        decision = decide(current, found, cluster(), NOW + timedelta(seconds=500))
        assert len(decision.run.attempts) <= 2
        if decision.next in ("wait", "finish") and decision.run == current:
            return
        current = acted(current, decision, NOW)


@relaxed
@given(facts())
def test_no_action_names_a_node_that_was_not_reported_lost(found: list[Fact]) -> None:
    lost = {entry.node for item in found for entry in evidence_of(item)}
    for _, decision in life(found):
        for action in decision.run.actions:
            if (
                action.kind == "exclude"
            ):  # of a waiting job: what is lost, and what it was submitted without
                assert set(action.nodes) <= lost
            else:
                assert action.kind == "cancel-job" or action.node in lost


@relaxed
@given(facts())
def test_an_attempt_is_never_planned_on_too_few_nodes_or_beside_a_live_one(
    found: list[Fact],
) -> None:
    for _, decision in life(found):
        attempts = decision.run.attempts
        assert [attempt.number for attempt in attempts] == list(range(1, len(attempts) + 1))
        assert all(attempt.ended_at is not None for attempt in attempts[:-1])
        planned = [attempt for attempt in attempts if attempt.submitted_at is None]
        assert all(3 - len(set(attempt.exclude)) >= 2 for attempt in planned)


@relaxed
@given(facts(), st.sampled_from(["Succeeded", "Failed", "Cancelled"]))
def test_terminal_is_terminal(found: list[Fact], status: str) -> None:
    ended = run(status=status)
    decision = decide(ended, found, cluster(), NOW)
    assert decision.next == "finish"
    assert decision.run == ended
    assert not decision.notes


@relaxed
@given(facts())
def test_facts_of_older_attempts_never_act(found: list[Fact]) -> None:
    old = [item for item in found if attempt_of(item) in (1, 2)]
    attempts = [
        Attempt(
            number=n,
            submitted_at=NOW,
            ended_at=NOW if n < 3 else None,
            nodes=NODES[:2],
            started_at=NOW,
        )
        for n in (1, 2, 3)
    ]
    current = run(attempts=attempts, status="Running")
    decision = decide(
        current,
        [item for item in old if not isinstance(item, AttemptEnded) or not item.nodes],
        cluster(),
        NOW,
    )
    assert decision.next == "wait"
    assert decision.run.attempts == attempts


@relaxed
@given(facts(), st.integers(0, 10**6))
def test_every_wait_ends(found: list[Fact], seconds: int) -> None:
    decision = decide(run(), found, cluster(), NOW + timedelta(seconds=seconds))
    assert 1 <= decision.timeout_seconds <= 86400


def test_a_run_never_tears_down_what_no_verified_export_holds() -> None:
    trained = Attempt(number=1, submitted_at=NOW, ended_at=NOW, outcome="succeeded")
    failed = Export(
        id="x", state="failed", final=True, tries=3, requested_at=NOW, reason="checksum differs"
    )
    decision = decide(
        run(outcome="succeeded", attempts=[trained], export=failed), [], cluster(), NOW
    )
    assert decision.next == "finish"
    assert decision.run.problem is not None
    assert decision.run.problem.code == "export-failed"
    verified = failed.model_copy(update={"state": "verified"})
    assert (
        decide(
            run(outcome="succeeded", attempts=[trained], export=verified), [], cluster(), NOW
        ).next
        == "teardown"
    )


def test_the_end_of_another_job_says_nothing_of_the_attempt() -> None:
    current = run(
        status="Running",
        attempts=[
            Attempt(number=1, submitted_at=NOW, job_id="11", nodes=["a", "b"], started_at=NOW)
        ],
    )
    foreign = fact(1, "AttemptEnded", 1, 1, jobId="7", outcome="succeeded", exitCode=0, nodes=[])
    assert decide(current, [foreign], cluster(), NOW).next == "wait"
    own = fact(2, "AttemptEnded", 1, 2, jobId="11", outcome="succeeded", exitCode=0, nodes=[])
    assert decide(current, [foreign, own], cluster(), NOW).run.outcome == "succeeded"


def calls_to_decide(lost: int) -> int:
    """Python's calls in one decision about a running attempt when so many spares are lost."""
    attempt = Attempt(number=1, planned_at=NOW, submitted_at=NOW, job_id="1", nodes=NODES[:2])
    told = [fact(9999, "AttemptStarted", 1, 0, jobId="1", nodes=NODES[:2])]
    told += [
        fact(number, "NodeLost", None, 1, about=evidence(f"ip-10-0-{number // 250}-{number % 250}"))
        for number in range(lost)
    ]
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        decision = decide(
            run(status="Running", attempts=[attempt]), told, cluster(), NOW + timedelta(seconds=2)
        )
    finally:
        sys.setprofile(None)
    assert len(decision.notes) == len(decision.run.actions) == lost
    return count


def test_a_decision_about_many_lost_nodes_costs_in_proportion_to_them_not_to_their_square() -> None:
    calls_to_decide(1)  # models are built at first use
    assert calls_to_decide(800) < 6 * calls_to_decide(200)
