"""Facts are read by their classes: a renamed field is an error of mypy, not None in silence."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from tests.support.repository import ROOT

from trainyard.domain import facts
from trainyard_contracts.events import AGENT_EVENTS, AgentEvent, parse_agent_event

PLACES = ("layers", "functions")
BY_STRING = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "vars", "__dict__"}
CORE, CONTRACTS = "layers/core/trainyard/", "layers/contracts/trainyard_contracts/"
#: Where a string names an attribute or a key of a fact's document, and why no class would do.
ALLOWED = {
    CORE + "aws/clients.py:Lazy.__getattr__": "stands for boto3's client, of any method",
    CORE + "aws/facts.py:written": "the stored document, in which long lists are cut",
    CORE + "http/views.py:View.of": "the view's own fields; one that the record lacks raises",
    CORE + "domain/decisions.py:bounded": "the fields written above it; another one raises",
    CORE + "app/clusters/change_cluster.py:_wanted": "two specs, field by field, by their models",
    CORE + "domain/notices.py:of_line": "a line of the timeline, whose data no fact is",
    CORE + "domain/recipes.py:_input": "a run's data, by the names of its spec; no fact's",
    CONTRACTS + "run_fit.py:given": "fields that a backend names; one that is not there raises",
    CONTRACTS + "commands.py:Command.options": "the command's own fields, by dataclasses",
    CONTRACTS + "commands.py:Answer.as_json": "the answer's own fields, by dataclasses",
}


def by_string(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """Functions that reach an attribute, or a key of a fact's document, by a string."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield from by_string(node, f"{inside}.{node.name}" if inside else node.name)
            continue
        if _name(node) in BY_STRING or _reads_document(node):
            yield inside
        yield from by_string(node, inside)


def _name(node: ast.AST) -> str:
    return (
        node.id
        if isinstance(node, ast.Name)
        else node.attr
        if isinstance(node, ast.Attribute)
        else ""
    )


def _reads_document(node: ast.AST) -> bool:
    """`x.data["key"]`, `x.data.get("key")`, and the same of `model_dump()` and `data_of()`."""
    got = isinstance(node, ast.Attribute) and node.attr in ("get", "pop")
    if not got and not isinstance(node, ast.Subscript):
        return False
    source = node.value
    if isinstance(source, ast.Call):
        return _name(source.func) in ("model_dump", "data_of")
    return isinstance(source, ast.Attribute) and source.attr == "data"


def test_no_field_is_read_by_a_string_where_a_class_would_do() -> None:
    files = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    assert len(files) > 100
    found = {
        f"{path.relative_to(ROOT)}:{inside}"
        for path in files
        for inside in by_string(ast.parse(path.read_text()))
    }
    assert found == set(ALLOWED), "read it by its class, or say in ALLOWED why not"


@pytest.mark.parametrize(
    "line",
    [
        "getattr(event, 'run_id', None)",
        "hasattr(event, name)",
        "setattr(run, 'status', 'Running')",
        "event.__dict__",
        "fact.data['attempt']",
        "fact.data.get('attempt')",
        "event.model_dump(mode='json')['attempt']",
        "data_of(fact).get('runId')",
    ],
)
def test_a_field_that_is_read_by_a_string_is_found(line: str) -> None:
    source = f"class Reader:\n    def read(self, event):\n        return {line}\n"
    assert set(by_string(ast.parse(source))) == {"Reader.read"}


def samples() -> list[AgentEvent]:
    told = [json.loads(path.read_text()) for path in sorted(ROOT.glob("tests/events/[!b]*.json"))]
    agents = [event for event in told if event["detail-type"] in AGENT_EVENTS]
    return [parse_agent_event(event["detail-type"], event["detail"]) for event in agents]


def test_every_event_has_a_sample() -> None:
    assert {type(event) for event in samples()} == set(AGENT_EVENTS.values())


@pytest.mark.parametrize("event", samples(), ids=facts.type_of)
def test_every_time_of_an_event_moves_along(event: AgentEvent) -> None:
    def times(of: AgentEvent) -> dict[str, datetime]:
        values = {name: value for name, value in of if name != "reported_at"}
        return {name: value for name, value in values.items() if isinstance(value, datetime)}

    hour = timedelta(hours=1)
    moved = event.moved(hour)
    assert times(moved) == {name: at + hour for name, at in times(event).items()}
    assert moved.reported_at == event.at


@pytest.mark.parametrize("event", samples(), ids=facts.type_of)
def test_an_event_that_has_a_run_or_an_attempt_is_known_by_it(event: AgentEvent) -> None:
    fields = dict(event)
    assert facts.run_of(event) == fields.get("run_id")
    assert facts.attempt_of(event) == fields.get("attempt")


def test_every_class_that_has_a_run_or_an_attempt_is_one_that_is_asked_for_it() -> None:
    for cls in facts.CLASSES.values():
        assert ("attempt" in cls.model_fields) == issubclass(cls, facts.OF_AN_ATTEMPT), cls
        assert ("run_id" in cls.model_fields) == issubclass(cls, facts.OF_A_RUN), cls
