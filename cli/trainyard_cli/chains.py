"""Puts the runs of one file into the order in which they can be submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .problems import InvalidInput

Spec = dict[str, Any]
_IDS = "run-"


def ordered(runs: Sequence[Any], path: str) -> list[Spec]:
    """Each after those that it names. Raises InvalidInput for what no order helps."""
    named = _by_name(runs, path)
    found: dict[str, Spec] = {}
    for name in named:
        _place(name, named, found, (), path)
    return list(found.values())


def with_ids(spec: Mapping[str, Any], ids: Mapping[str, str]) -> Spec:
    """The spec with ids in the place of names, in `after` and in the sources of its inputs."""
    given = dict(spec)
    if "after" in given:
        given["after"] = [ids.get(name, name) for name in given["after"]]
    if "inputs" in given:
        given["inputs"] = [_input(one, ids) for one in given["inputs"]]
    return given


def alone(spec: Mapping[str, Any]) -> Spec:
    """The spec without what it takes of other runs, for a look at all else."""
    left_out = ("after", "afterPolicy", "inputs")
    inputs = [one for one in spec.get("inputs", []) if _parent(one) is None]
    kept = {name: value for name, value in spec.items() if name not in left_out}
    return {**kept, "inputs": inputs} if inputs else kept


def _by_name(runs: Sequence[Any], path: str) -> dict[str, Spec]:
    named: dict[str, Spec] = {}
    for number, run in enumerate(runs):
        name = run.get("name") if isinstance(run, dict) else None
        if not isinstance(name, str):
            raise _wrong(path, f"runs.{number}: has no name; each run of a chain needs one")
        if name in named:
            raise _wrong(
                path, f"runs.{number}.name: '{name}' is the name of two runs; give each its own"
            )
        if not isinstance(run.get("after", []), list):
            raise _wrong(path, f"runs.{number}.after: must be a list of names")
        named[name] = run
    if not named:
        raise _wrong(path, "runs: names no run")
    return named


def _place(
    name: str, named: Mapping[str, Spec], found: dict[str, Spec], way: tuple[str, ...], path: str
) -> None:
    if name in way:
        circle = " -> ".join([*way[way.index(name) :], name])
        raise _wrong(path, f"after: the runs wait for each other: {circle}; take one of them out")
    if name in found:
        return
    spec = named[name]
    for other in spec.get("after", []):
        if other in named:
            _place(other, named, found, (*way, name), path)
        elif not str(other).startswith(_IDS):
            known = ", ".join(named)
            raise _wrong(path, f"{name}: after: there is no run '{other}' in it; it has {known}")
    found[name] = spec


def _parent(one: Any) -> str | None:
    source = one.get("source") if isinstance(one, dict) else None
    if not isinstance(source, str) or not source.startswith("run:"):
        return None
    return source.removeprefix("run:").partition("/")[0]


def _input(one: Any, ids: Mapping[str, str]) -> Any:
    parent = _parent(one)
    if parent is None or parent not in ids:
        return one
    return {**one, "source": f"run:{ids[parent]}{one['source'][len('run:') + len(parent) :]}"}


def _wrong(path: str, words: str) -> InvalidInput:
    return InvalidInput(
        "The chain cannot be submitted", f"{path}: {words}", "docs/many-runs.md has an example"
    )
