"""Changes single fields of a spec, as `--set` and its kin ask; a field that is none is refused."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from trainyard_sdk.spec_files import ESCAPES, is_escape, of_yaml

from .problems import InvalidInput

#: What is in them is text, which may look like a number.
_TEXTS = (["job", "arguments"], ["job", "environment"])
_FIELDS = "docs/reference/specs.md lists the fields"


def overridden(
    spec: Mapping[str, Any],
    *,
    fields: Sequence[str] = (),
    environment: Sequence[str] = (),
    name: str | None = None,
    arguments: Sequence[str] = (),
) -> dict[str, Any]:
    """A changed copy. `fields` are PATH=VALUE with a value in YAML; null takes the field out.

    Raises InvalidInput.
    """
    changed = copy.deepcopy(dict(spec))
    for given in fields:
        path, text = _split(given, "--set", "job.nodes=4")
        place, nodes = _place(path)
        _put(changed, place, _value(given, text, place, nodes), path)
    for given in environment:
        variable, text = _split(given, "--env", "SEED=7")
        _put(changed, ["job", "environment", variable], text, f"job.environment.{variable}")
    if name is not None:
        changed["name"] = name
    if arguments:
        _put(changed, ["job", "arguments"], list(arguments), "job.arguments")
    return changed


def same_commit(run: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """The change by which a rerun has the run's own commit; none where the code is to change."""
    commit = (run.get("code") or {}).get("commit")
    git = ("job.git", "job.git.url", "job.git.ref")
    if not commit or any(given.partition("=")[0].strip() in git for given in fields):
        return []
    return [f"job.git.ref={commit}"]


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ, by their paths, each with both values; None where there is none."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from differences(
                before.get(key), after.get(key), f"{path}.{key}" if path else str(key)
            )
    elif before != after:
        yield path, before, after


def _split(given: str, option: str, example: str) -> tuple[str, str]:
    path, equals, text = given.partition("=")
    if not equals or not path.strip():
        raise InvalidInput(
            f"{option} has no value", f"{option} '{given}'", f"Write it as {option} {example}"
        )
    return path.strip(), text


def _value(given: str, text: str, place: list[str], nodes: Sequence[Mapping[str, Any]]) -> Any:
    """The value as YAML reads it; as it is written where the field is a text and nothing else."""
    try:
        value = of_yaml(text) if place[:2] in _TEXTS else yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        where = f"--set {'.'.join(place)}{'.regex' if place == ['progress'] else ''}=VALUE"
        raise InvalidInput(
            "The value is not YAML",
            f"--set '{given}': {error}",
            f"{ESCAPES}, or {where} without double quotes"
            if is_escape(error)
            else "Put it in quotes",
        ) from error
    kinds = {node.get("type") for node in nodes} - {"null"}
    is_text = kinds == {"string"} or (place[:2] in _TEXTS and len(place) > 2)
    return text if is_text and not isinstance(value, str | None) else value


def _put(spec: dict[str, Any], place: Sequence[str], value: Any, path: str) -> None:
    holder: Any = spec
    for depth, part in enumerate(place[:-1]):
        holder = _inner(holder, part, path)
        if holder is None:
            holder = _made(spec, place[: depth + 1])
    last = place[-1]
    if isinstance(holder, list):
        _put_item(holder, last, value, path)
    elif isinstance(holder, dict):
        holder[last] = value
        if value is None:
            del holder[last]
    else:
        raise _unfit(path)


def _inner(holder: Any, part: str, path: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(part)
    if isinstance(holder, list) and int(part) < len(holder):
        return holder[int(part)]
    raise _unfit(path)


def _made(spec: dict[str, Any], place: Sequence[str]) -> dict[str, Any]:
    """A new mapping at a place whose own holder is there."""
    holder: Any = spec
    for part in place[:-1]:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    made: dict[str, Any] = {}
    holder[place[-1]] = made
    return made


def _put_item(holder: list[Any], last: str, value: Any, path: str) -> None:
    if int(last) > len(holder):
        raise InvalidInput(
            "There is no such item",
            f"--set {path}: the list has {len(holder)} items",
            f"Count from 0; {len(holder)} adds one",
        )
    holder[int(last) : int(last) + 1] = [] if value is None else [value]


def _unfit(path: str) -> InvalidInput:
    return InvalidInput(
        "The spec has something else there", f"--set {path}", "Set the whole of it in one"
    )


@cache
def _schema() -> dict[str, Any]:
    from trainyard_contracts.specs import RunSpec

    return RunSpec.model_json_schema(by_alias=True)


def _place(path: str) -> tuple[list[str], list[Mapping[str, Any]]]:
    """The keys that lead to a field, and what may stand there. Raises InvalidInput."""
    parts, place = path.split("."), list[str]()
    nodes = list(_meant(_schema()))
    while parts:
        known = {name: node for one in nodes for name, node in one.get("properties", {}).items()}
        values = [node for one in nodes if (node := _of_any_key(one)) is not None]
        items = [one["items"] for one in nodes if "items" in one]
        part = parts[0]
        if part in known:
            inner = [one["properties"][part] for one in nodes if part in one.get("properties", {})]
        elif values:  # a variable or a path: it may have dots
            return [*place, ".".join(parts)], [found for node in values for found in _meant(node)]
        elif items and part.isdecimal():
            inner = items
        else:
            raise _unknown(path, place, part, known, bool(items))
        place.append(parts.pop(0))
        nodes = [found for node in inner for found in _meant(node)]
    return place, nodes


def _meant(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What a schema refers to, and each of its choices."""
    if "$ref" in node:
        yield from _meant(_schema()["$defs"][node["$ref"].rpartition("/")[2]])
        return
    choices = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    for choice in choices:
        yield from _meant(choice)
    if not choices:
        yield node


def _of_any_key(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    more = node.get("additionalProperties")
    patterns = node.get("patternProperties")
    if isinstance(more, dict):
        return more
    return next(iter(patterns.values())) if patterns else None


def _unknown(
    path: str, place: Sequence[str], part: str, known: Mapping[str, Any], is_list: bool
) -> InvalidInput:
    before = ".".join(place)
    if is_list:
        detail, next_step = f"{before} is a list", f"Write {before}.0 for its first item"
    elif not known:
        detail, next_step = f"{before} has no fields of its own", _FIELDS
    else:
        plain = re.sub(r"[_-]", "", part).lower()
        by_plain = {name.lower(): name for name in known}
        nearest = difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.5)
        detail = f"{before or 'a run'} has no field '{part}'"
        meant = ".".join([*place, by_plain[nearest[0]]]) if nearest else ""
        next_step = f"Did you mean {meant}?" if meant else f"It has {', '.join(sorted(known))}"
    return InvalidInput("There is no such field", f"--set {path}: {detail}", next_step)
