"""Which run a node trains, and what may be left on it."""

from __future__ import annotations

from pathlib import Path

from tests.support.agent import RUN, attempt
from tests.support.agent_parts import Controller
from tests.unit.trainyard_agent.jobs.test_attempts import on_a_node

from trainyard_agent.jobs.activity import LEFTOVER_RUNS, leftovers_on
from trainyard_agent.jobs.attempt import Attempt


def test_leftovers_are_those_of_the_runs_that_used_the_node_last() -> None:
    runs = [f"run-{number:03}" for number in range(LEFTOVER_RUNS + 5)]
    over = [attempt(1, "ended", run) for run in runs]
    found = leftovers_on("ip-1", over)
    assert [run for run, _, _ in found] == sorted(runs, reverse=True)[:LEFTOVER_RUNS]
    assert leftovers_on("ip-2", over) == []


def test_of_two_runs_the_one_that_was_on_a_node_last_is_what_runs_there(tmp_path: Path) -> None:
    controller, other = Controller(tmp_path), "run-01j0000000000000000000000b"

    def known(*those: Attempt) -> tuple[str, int]:
        controller.attempts.known.clear()
        controller.attempts.known.update({(one.run_id, one.number): one for one in those})
        found = controller.attempts.on_node("ip-1")
        assert found is not None
        return found.run_id, found.attempt

    ended_before = on_a_node(tmp_path, RUN, 9, "ended", ended=30.0)
    assert known(ended_before, on_a_node(tmp_path, other, 1, "ended", ended=1.0)) == (other, 1), (
        "numbers count within a run"
    )
    assert known(ended_before, on_a_node(tmp_path, other, 1, "running")) == (other, 1)
    judged = on_a_node(tmp_path, RUN, 9, "running", job_ended=True)
    assert known(judged, on_a_node(tmp_path, other, 1, "running")) == (other, 1), (
        "the job of the other one has left the node"
    )
    assert known(ended_before, on_a_node(tmp_path, RUN, 10, "running")) == (RUN, 10)
