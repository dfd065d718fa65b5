"""Attempts on a node: how one changes with its row in the store, which runs there, what is left."""

from __future__ import annotations

import ast
import sqlite3
import time
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.support.agent import RUN, attempt, config, started

import trainyard_agent
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.jobs.attempt import Attempt, Changes
from trainyard_agent.jobs.attempts import Attempts


def test_an_attempt_is_named_in_the_log_by_its_run_and_number() -> None:
    assert str(attempt(2)) == f"{RUN} attempt 2"


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
