"""What the controller concludes of attempts, as pure functions of what it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN

from trainyard_agent.jobs.attempts import LEFTOVER_RUNS, Attempt, leftovers_on
from trainyard_agent.jobs.ending import EVIDENCE_NODES, doubtful_first, with_restart
from trainyard_agent.jobs.evidence import Diagnosis
from trainyard_agent.jobs.follow import (
    EAGER_POLL_SECONDS,
    POLL_SECONDS,
    poll_seconds,
    stands_still,
)
from trainyard_agent.jobs.forced_end import cut_off
from trainyard_agent.jobs.hosts import with_addresses
from trainyard_agent.jobs.progress import note_step, smoothed
from trainyard_agent.jobs.queue_watch import TELL_QUEUE_SECONDS, worth_telling
from trainyard_contracts.events import JobAhead, NodeEvidence
from trainyard_contracts.files import Progress


def attempt(number: int = 1, state: Any = "running", run: str = RUN, **fields: Any) -> Attempt:
    values = {"nodes": ("ip-1",), "job_id": str(100 + number), **fields}
    return Attempt(run, number, state, Path("/attempts") / str(number), **values)


def progress(step: int, at: float) -> Progress:
    return Progress(
        step=step, loss=None, at=at, resumed_from=None, first_step_at=None, world_size=1
    )


def test_an_attempt_is_named_in_the_log_by_its_run_and_number() -> None:
    assert str(attempt(2)) == f"{RUN} attempt 2"


def test_leftovers_are_those_of_the_runs_that_used_the_node_last() -> None:
    runs = [f"run-{number:03}" for number in range(LEFTOVER_RUNS + 5)]
    over = [attempt(1, "ended", run) for run in runs]
    found = leftovers_on("ip-1", over)
    assert [run for run, _, _ in found] == sorted(runs, reverse=True)[:LEFTOVER_RUNS]
    assert leftovers_on("ip-2", over) == []


@pytest.mark.parametrize(
    ("state", "job_ended", "now", "eager"),
    [
        ("submitted", False, 9.0, True),
        ("submitted", False, 11.0, False),
        ("running", False, 9.0, False),
        ("running", True, 9.0, True),
    ],
)
def test_slurm_is_asked_often_until_the_job_runs_and_while_it_ends(
    state: str, job_ended: bool, now: float, eager: bool
) -> None:
    found = poll_seconds(attempt(1, state, eager_until=10.0, job_ended=job_ended), now)
    assert found == (EAGER_POLL_SECONDS if eager else POLL_SECONDS)


def test_a_standstill_is_one_of_a_job_that_runs_and_has_stepped() -> None:
    fields: dict[str, Any] = {"stepped_at": 10.0, "step_seconds": 1.0}
    assert stands_still(attempt(**fields), 14.0)
    assert not stands_still(attempt(**fields), 12.0)
    assert not stands_still(attempt(**fields, doubted_at=10.0), 14.0)
    assert not stands_still(attempt(**fields, job_ended=True), 14.0)
    assert not stands_still(attempt(state="submitted", **fields), 14.0)
    assert not stands_still(attempt(), 14.0)


def test_a_step_usually_takes_what_the_newest_ones_took() -> None:
    assert smoothed(None, 2.0) == 2.0
    assert smoothed(1.0, 2.0) == pytest.approx(1.3)


def test_only_a_step_forward_says_how_long_steps_take() -> None:
    ours = attempt()
    note_step(ours, progress(10, 100.0), 1.0)
    assert (ours.stepped_at, ours.step_seconds) == (None, None), "one report is no step yet"
    note_step(ours, progress(14, 102.0), 2.0)
    assert (ours.stepped_at, ours.step_seconds) == (2.0, 0.5)
    note_step(ours, progress(12, 110.0), 3.0)
    assert (ours.stepped_at, ours.step_seconds) == (3.0, 0.5), "it began again further back"
    note_step(ours, progress(12, 120.0), 4.0)
    assert ours.stepped_at == 3.0


def test_a_restart_explains_the_end_of_a_job_that_did_not_succeed() -> None:
    failed, well = Diagnosis("failed", 1, error="an error"), Diagnosis("succeeded", 0)
    assert with_restart(failed, "ip-1").error == "ip-1 was restarted"
    assert with_restart(failed, "") == failed
    assert with_restart(well, "ip-1") == well


def test_of_too_many_nodes_those_in_doubt_are_told() -> None:
    well = [
        NodeEvidence(node=f"ip-{n}", agent="linked", scheduler="up") for n in range(EVIDENCE_NODES)
    ]
    doubted = NodeEvidence(node="doubted", agent="linked", scheduler="down")
    assert doubtful_first([*well, doubted]) == [doubted, *well[:-1]]


def test_a_job_that_began_after_the_node_was_off_is_not_cut_off() -> None:
    assert cut_off(attempt(running_since=1.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=3.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=1.0), "ip-2", 2.0)
    assert not cut_off(attempt(state="submitted", running_since=1.0), "ip-1", 2.0)
    assert not cut_off(attempt(running_since=1.0, cut_off_from="ip-1"), "ip-1", 2.0)


def test_who_is_in_the_way_is_told_when_it_changed_and_not_all_the_time() -> None:
    waiting = attempt(state="submitted", queue_told_at=0.0)
    others = [JobAhead(job_id="7", user="a", nodes=[])]
    assert worth_telling(waiting, others, TELL_QUEUE_SECONDS)
    assert not worth_telling(waiting, others, TELL_QUEUE_SECONDS - 1.0)


def test_a_host_is_written_by_its_address_only() -> None:
    assert with_addresses({"a": "10.0.0.1", "b": "ip-10-0-0-2", "c": "fe80::1"}) == {
        "a": "10.0.0.1",
        "c": "fe80::1",
    }
