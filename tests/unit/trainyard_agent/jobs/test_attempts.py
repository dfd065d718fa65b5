"""An attempt changes with its row in the store, by names that are checked; what is left of it."""

from __future__ import annotations

import ast
import sqlite3
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.support.agent import RUN, attempt, config, started

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
