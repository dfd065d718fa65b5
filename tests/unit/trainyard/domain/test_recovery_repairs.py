"""Two repairers: HyperPod repairs a lost node first if nodeRecovery says so, else we replace it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.facts import answering
from tests.support.records import NOW, cluster, run
from tests.support.recovery import FIRST, LOST, ONE, TWO, acted, fact

from trainyard.domain.records import Action, Cluster, Run
from trainyard.domain.recovery import decide
from trainyard_contracts.events import Fact

STEPPED = [
    fact(5, "AttemptStarted", 2, 12, jobId="1", nodes=[TWO, "ip-127-0-1-14"]),
    fact(6, "AttemptStepped", 2, 15, step=2, resumedFrom=1, steppedAt=NOW.isoformat()),
]


def healing() -> Cluster:
    found = cluster()
    return found.model_copy(
        update={"spec": found.spec.model_copy(update={"node_recovery": "Automatic"})}
    )


def story(
    facts: list[Fact], seconds: int, current: Run | None = None
) -> tuple[Run, list[Action], list[Any]]:
    """Decide and act until the run waits.

    Returns the run, all that was done, and the last decision's timeout with the notes.
    """
    current, done, notes = current or run(status="Running", attempts=[FIRST]), [], []
    for _ in range(20):
        decision = decide(current, facts, healing(), NOW + timedelta(seconds=seconds))
        notes += [note.message for note in decision.notes]
        if decision.next == "wait":
            return decision.run, done, [*notes, decision.timeout_seconds]
        done += decision.actions
        left = [action for action in decision.run.actions if action not in decision.actions]
        current = (
            acted(decision.run, decision, NOW + timedelta(seconds=seconds))
            if decision.next != "repair"
            else decision.run.model_copy(update={"actions": left})
        )
    raise AssertionError("the run never rests")


def test_a_lost_node_is_left_to_hyperpod_for_five_minutes_and_then_replaced() -> None:
    current, done, said = story([LOST, *STEPPED], 20)
    assert done == []
    assert [action.kind for action in current.actions] == ["replace"]
    assert any(
        f"another node is asked for if {ONE} is not back by 12:05:10 UTC" in str(line)
        for line in said
    )
    assert said[-1] == 291
    current, done, _ = story([LOST, *STEPPED], 310, current)
    assert [(action.kind, action.node) for action in done] == [("replace", ONE)]
    assert current.actions == []


def test_a_node_that_hyperpod_rebooted_is_never_replaced() -> None:
    current, _, _ = story([LOST, *STEPPED], 20)
    back = fact(7, "NodeReturned", None, 120, about=answering(ONE, "i-12"))
    current, done, _ = story([LOST, *STEPPED, back], 121, current)
    assert (current.actions, done) == ([], [])


def test_a_node_whose_repair_hyperpod_announced_is_given_the_time_of_a_replacement() -> None:
    health = fact(
        8, "NodeHealth", None, 60, instanceId="i-12", status="Unhealthy", repairAction="Replace"
    )
    _, done, said = story([LOST, *STEPPED, health], 320)
    assert (done, said[-1]) == ([], 60 + 1800 - 320 + 1)
    other = health.model_copy(update={"instance_id": "i-99"})
    _, done, _ = story([LOST, *STEPPED, other], 320)
    assert [action.kind for action in done] == ["replace"]


def test_a_repair_that_was_announced_before_the_node_came_back_is_over() -> None:
    health = fact(
        6, "NodeHealth", None, 2, instanceId="i-12", status="Unhealthy", repairAction="reboot"
    )
    back = fact(7, "NodeReturned", None, 4, about=answering(ONE, "i-12"))
    _, done, said = story([health, back, LOST, *STEPPED], 20)
    assert (done, said[-1]) == ([], 291), "as long as for any lost node"


def test_a_run_that_ends_leaves_the_repair_to_hyperpod() -> None:
    current, _, _ = story([LOST, *STEPPED], 20)
    end = fact(9, "AttemptEnded", 2, 30, jobId="1", outcome="succeeded", nodes=[])
    decision = decide(current, [LOST, *STEPPED, end], healing(), NOW + timedelta(seconds=31))
    assert (decision.run.outcome, decision.run.actions) == ("succeeded", [])
