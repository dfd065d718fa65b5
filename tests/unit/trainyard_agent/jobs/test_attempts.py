"""Attempts on a node: how one changes with its row in the store, which runs there, what is left."""

from __future__ import annotations

import ast
import sqlite3
import time
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.support.agent import RUN, attempt, config, started
from tests.support.agent_parts import Controller

import trainyard_agent
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.jobs.attempts import LEFTOVER_RUNS, Attempt, Attempts, Changes, leftovers_on


def test_an_attempt_is_named_in_the_log_by_its_run_and_number() -> None:
    assert str(attempt(2)) == f"{RUN} attempt 2"


def test_leftovers_are_those_of_the_runs_that_used_the_node_last() -> None:
    runs = [f"run-{number:03}" for number in range(LEFTOVER_RUNS + 5)]
    over = [attempt(1, "ended", run) for run in runs]
    found = leftovers_on("ip-1", over)
    assert [run for run, _, _ in found] == sorted(runs, reverse=True)[:LEFTOVER_RUNS]
    assert leftovers_on("ip-2", over) == []


def test_a_change_is_of_the_fields_that_the_store_has_and_of_their_types() -> None:
    fields = get_type_hints(Attempt)
    declared = get_type_hints(Changes)
    assert declared == {name: fields[name] for name in declared}
    assert "Unpack[Changes]" in str(Attempts.save.__annotations__["changes"])


def test_no_attribute_of_the_agent_is_set_by_a_name_that_nobody_checks() -> None:
    package = Path(trainyard_agent.__file__).parent
    calls = {
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(("setattr", "__setattr__"))
    }
    assert calls == set()


def test_what_the_store_refuses_does_not_change_the_attempt(tmp_path: Path) -> None:
    reporter = Reporter(config(tmp_path), Store(tmp_path / "outbox.sqlite"))
    attempts, kept = Attempts(config(tmp_path), reporter), attempt(1, "running")
    with pytest.raises(TypeError):
        attempts.save(kept, stat="ended")  # type: ignore[call-arg]
    reporter.store.close()
    with pytest.raises(sqlite3.Error):
        attempts.save(kept, started(), state="ended", nodes=("ip-9",))
    assert (kept.state, kept.nodes, attempts.known) == ("running", attempt(1).nodes, {})


def on_a_node(
    directory: Path,
    run_id: str,
    number: int,
    state: str,
    *,
    ended: float | None = None,
    job_ended: bool = False,
) -> Attempt:
    attempt = Attempt(
        run_id, number, state, directory / f"{run_id}-{number}", job_id=str(number), nodes=["ip-1"]
    )  # type: ignore[arg-type]
    attempt.ended_at = None if ended is None else time.monotonic() - ended
    attempt.job_ended = job_ended
    return attempt


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
