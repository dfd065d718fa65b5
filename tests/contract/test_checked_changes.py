"""A record refuses a misspelt field or a wrong type where it is written, not where it is read."""

from __future__ import annotations

import ast
from datetime import datetime, timezone

import pytest
from pydantic import ValidationError
from tests.support.repository import ROOT

from trainyard.domain.records import Attempt

AT = datetime(2026, 11, 20, tzinfo=timezone.utc)
PLACES = ("layers", "functions", "node_agent/trainyard_agent")
#: Where that is done, and is no change of a record.
ALLOWED = {
    ("layers/contracts/trainyard_contracts/base.py", "model_copy"),  # the checked copy itself
    ("layers/core/trainyard/aws/clients.py", "__dict__"),  # a client that is kept
    ("node_agent/trainyard_agent/host/signed_http.py", "__dict__"),  # a connection that is kept
    # Answers, made of records that are right, and stored nowhere.
    ("layers/core/trainyard/http/cluster_list.py", "model_construct"),
    ("layers/core/trainyard/http/metrics_views.py", "model_construct"),
    ("layers/core/trainyard/http/run_list.py", "model_construct"),
    ("layers/core/trainyard/http/run_pages.py", "model_construct"),
    ("layers/core/trainyard/http/views.py", "model_construct"),
}


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


def unchecked(source: str) -> list[tuple[str, int]]:
    """Words, and their lines, by which a model is made or changed and nobody checks its fields."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = {  # a copy without a change
        node.func
        for node in nodes
        if isinstance(node, ast.Call) and not node.args and not node.keywords
    }
    words = ((_unchecked_word(node), node) for node in nodes if node not in plain)
    return [(word, node.lineno) for word, node in words if word]


def _unchecked_word(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr="model_copy" | "model_construct" | "__dict__" | "__setattr__"):
            return node.attr
        case ast.Call(func=ast.Attribute(attr="copy"), keywords=[_, *_]):
            return "copy"  # pydantic 1's; no other copy takes words
        case ast.Call(func=ast.Name(id="vars")):
            return "vars"
    return ""


def test_no_record_is_changed_in_another_way() -> None:
    files = [path for place in PLACES for path in (ROOT / place).rglob("*.py")]
    assert len(files) > 100
    found = {
        (str(path.relative_to(ROOT)), word): line
        for path in files
        for word, line in unchecked(path.read_text())
    }
    assert set(found) == ALLOWED, found


@pytest.mark.parametrize(
    "source",
    [
        "run.model_copy(update={'statuss': 1})",
        "make = run.model_copy; make(update={'statuss': 1})",
        "run.copy(update={'statuss': 1})",
        "Run.model_construct(status=7)",
        "run.__dict__.update(status=7)",
        "run.__dict__['status'] = 7",
        "vars(run)['status'] = 7",
        "object.__setattr__(run, 'status', 7)",
    ],
)
def test_every_other_way_is_found(source: str) -> None:
    assert unchecked(source)


@pytest.mark.parametrize(
    "source", ["run.model_copy()", "names.copy()", "run.changed(status='Ended')"]
)
def test_what_changes_nothing_or_is_checked_is_left_alone(source: str) -> None:
    assert not unchecked(source)
