"""A record refuses a misspelt field or a wrong type where it is written, not where it is read."""

from __future__ import annotations

import ast
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.repository import ROOT

from trainyard.domain.records import Attempt

AT = datetime(2026, 11, 20, tzinfo=timezone.utc)
PLACES = ("layers", "functions", "node_agent/trainyard_agent")


def test_a_change_is_a_checked_copy() -> None:
    attempt = Attempt(number=1)
    assert attempt.changed(job_id="7", started_at=AT) == Attempt(
        number=1, job_id="7", started_at=AT
    )
    assert attempt.job_id is None
    with pytest.raises(TypeError, match="Attempt has no field 'jobid'"):
        attempt.changed(jobid="7")
    for wrong in (
        {"job_id": 7},
        {"outcome": "won"},
        {"nodes": "ip-1"},
        {"started_at": "2026-11-20"},
    ):
        with pytest.raises(ValidationError):
            attempt.changed(**wrong)


def unchecked(path: Path) -> list[str]:
    """Copies with fields that nobody checks."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    found = [
        call
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "model_copy" and call.keywords
    ]
    return [f"{path.relative_to(ROOT)}:{call.lineno}" for call in found]


def test_no_record_is_changed_in_another_way() -> None:
    files = [path for place in PLACES for path in (ROOT / place).rglob("*.py")]
    assert len(files) > 100
    where = [line for path in files for line in unchecked(path)]
    assert [line.rpartition(":")[0] for line in where] == [
        "layers/contracts/trainyard_contracts/base.py"
    ], where
