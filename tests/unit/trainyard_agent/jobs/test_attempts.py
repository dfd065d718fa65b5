"""What is left of attempts on a node."""

from __future__ import annotations

from tests.support.agent import RUN, attempt

from trainyard_agent.jobs.attempts import LEFTOVER_RUNS, leftovers_on


def test_an_attempt_is_named_in_the_log_by_its_run_and_number() -> None:
    assert str(attempt(2)) == f"{RUN} attempt 2"


def test_leftovers_are_those_of_the_runs_that_used_the_node_last() -> None:
    runs = [f"run-{number:03}" for number in range(LEFTOVER_RUNS + 5)]
    over = [attempt(1, "ended", run) for run in runs]
    found = leftovers_on("ip-1", over)
    assert [run for run, _, _ in found] == sorted(runs, reverse=True)[:LEFTOVER_RUNS]
    assert leftovers_on("ip-2", over) == []
