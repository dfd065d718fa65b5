"""The controller's parts are made in an order in which each gets all that it needs, and serve."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import config
from tests.support.ports import free_port

import trainyard_agent
from trainyard_agent.checks import Node
from trainyard_agent.controller import Controller
from trainyard_agent.host.accelerators import Accelerators
from trainyard_agent.host.local_socket import COMMAND_SOCKET, address
from trainyard_agent.host.sampling import Sampler
from trainyard_agent.nodes.health import Health

PACKAGE = Path(trainyard_agent.__file__).parent
#: Of the standard library, which knows no other way.
HOOKS = {"threading.excepthook"}


async def answer(directory: str, *words: str) -> Any:
    with address(directory, COMMAND_SOCKET) as path:
        reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps({"words": words}).encode() + b"\n")
    line = await reader.readline()
    writer.close()
    return json.loads(line)


@pytest.mark.real
def test_a_controller_that_is_put_together_answers_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    async def story() -> None:
        settings = config(tmp_path, link_port=free_port())
        accelerators = Accelerators()
        health = Health(Node(settings, accelerators), [])
        controller = Controller(settings, b"k" * 32, Sampler(settings, accelerators), health)
        await controller.start()
        [own] = (await answer(settings.state_dir, "nodes"))["nodes"]
        assert own["node"] == settings.node_name
        controller.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def targets(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns to, tuples taken apart."""
    if isinstance(node, ast.Assign):
        found = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        found = [node.target]
    else:
        return []
    parts = [part for item in found for part in ast.walk(item)]
    return [part for part in parts if isinstance(part, ast.Attribute)]


def is_record(node: ast.AST) -> bool:
    """A dataclass that may change: its fields are for whoever holds it."""
    if not isinstance(node, ast.ClassDef):
        return False
    decorators = [ast.unparse(item) for item in node.decorator_list]
    return any(item.startswith("dataclass") and "frozen=True" not in item for item in decorators)


def record_fields(trees: list[ast.Module]) -> set[str]:
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {
        line.target.id
        for record in nodes
        if is_record(record)
        for line in getattr(record, "body", [])
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }


def set_from_outside(tree: ast.Module, fields: set[str]) -> Iterator[str]:
    """Assignments to attributes of other objects than `self`, but for fields of records."""
    for target in (target for node in ast.walk(tree) for target in targets(node)):
        owner = target.value
        own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
        record = isinstance(owner, ast.Name) and target.attr in fields
        name = ast.unparse(target)
        if isinstance(target.ctx, ast.Store) and not own and not record and name not in HOOKS:
            yield f"{target.lineno}: {name}"


def test_what_a_part_of_the_agent_needs_it_gets_when_it_is_made() -> None:
    trees = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    assert len(trees) > 50
    fields = record_fields(list(trees.values()))
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path, tree in trees.items()
        for line in set_from_outside(tree, fields)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["self._jobs.table = 1", "jobs.table: int = 1", "self._jobs.count += 1", "a, jobs.table = b"],
)
def test_an_attribute_that_is_set_from_outside_is_found(line: str) -> None:
    assert list(set_from_outside(ast.parse(line), {"count"}))


@pytest.mark.parametrize("line", ["self._table = 1", "attempt.count += 1"])
def test_an_objects_own_attribute_and_a_records_field_are_not(line: str) -> None:
    assert not list(set_from_outside(ast.parse(line), {"count"}))
