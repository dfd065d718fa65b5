"""Reads a spec from YAML or JSON; a typing error is reported by line before anything is sent."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import yaml

from .problems import InvalidInput

#: The API takes 256 KiB, and a value is two characters at least.
MOST_VALUES = 128 * 1024
#: What to do about a regular expression in double quotes.
ESCAPES = "In double quotes YAML reads \\ as an escape: use single quotes inside the YAML"


class _Once(yaml.SafeLoader):
    """Refuses a key that comes twice in one mapping: YAML would silently drop the first."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value if node else ():
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.composer.ComposerError(
                    None, None, f"the key '{key.value}' stands twice in one mapping", key.start_mark
                )
            seen.add(str(key.value))
        return node


def as_written(node: yaml.Node | None) -> None:
    """Numbers in a list or mapping of texts stay as they are written: 010 is not 8 there."""
    if isinstance(node, yaml.SequenceNode):
        node.value[:] = [_text(item) for item in node.value]
    elif isinstance(node, yaml.MappingNode):
        node.value[:] = [(key, _text(item)) for key, item in node.value]


def _text(node: yaml.Node) -> yaml.Node:
    # A new node: an alias may use the old one where a number is meant.
    number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    return yaml.ScalarNode("tag:yaml.org,2002:str", node.value) if number else node


def of_yaml(text: str, prepare: Callable[[yaml.Node | None], None] = as_written) -> Any:
    """What the YAML says. Raises yaml.YAMLError, RecursionError, ValueError and OverflowError."""
    loader = _Once(text)
    try:
        node = loader.get_single_node()
        prepare(node)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _texts_of_job(node: yaml.Node | None) -> None:
    runs = _field(node, "runs")
    several = runs.value if isinstance(runs, yaml.SequenceNode) else []
    for spec in (node, _field(node, "run"), *several):
        job = _field(spec, "job")
        as_written(_field(job, "arguments"))
        as_written(_field(job, "environment"))
    for given in (_field(node, "parameters"), _field(node, "matrix")):
        if isinstance(given, yaml.SequenceNode):
            for entry in given.value:
                as_written(entry)
        elif isinstance(given, yaml.MappingNode):
            for _, values in given.value:
                as_written(values)


def _field(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)


Kind = Literal["run", "cluster", "filesystem", "array", "schedule"]


def read_spec(path: str, kind: Kind | None = None) -> dict[str, Any]:
    """The spec in the file, or on standard input for '-', of that kind or of any.

    Raises InvalidInput.
    """
    return spec_in(_text_of(path), path, kind)


def spec_in(text: str, path: str, kind: Kind | None = None) -> dict[str, Any]:
    """The spec in the text; messages name the path. Raises InvalidInput."""
    document = _parsed(text, path)
    _check_values(document, path)
    _check_kind(document, path, kind)
    return document


def _check_values(document: dict[str, Any], path: str) -> None:
    """What JSON and the API cannot take. Raises InvalidInput."""
    if _written_out(document, {}) > MOST_VALUES:
        raise InvalidInput(
            "The spec is too large",
            f"{path}: with its aliases written out it has over {MOST_VALUES} values",
            "Write less",
        )
    try:
        json.dumps(document)
    except (TypeError, ValueError) as error:  # a date, a set, bytes, a list that holds itself
        raise InvalidInput(
            "The spec has what JSON does not know",
            f"{path}: {error}",
            "Put dates and the like in quotes",
        ) from error
    if (field := _no_number(document)) is not None:
        raise InvalidInput(
            "The spec has a number that is none",
            f"{path}: {field}: must be a finite number, not .nan or .inf",
            "Give a number, or leave the field out",
        )


def _check_kind(document: dict[str, Any], path: str, kind: Kind | None) -> None:
    """What is plainly a spec of another kind. Raises InvalidInput."""
    # The other kind's file is a common slip, and its fields would be refused one by one.
    of_a_cluster = bool({"instanceGroups", "queues"} & set(document))
    if kind == "run" and of_a_cluster and "job" not in document:
        raise InvalidInput(
            "This is a cluster's spec, not a run's", path, f"trainyard cluster create {path}"
        )
    chain = kind == "schedule" and "runs" in document
    if kind in ("array", "schedule") and "run" not in document and not chain:
        raise InvalidInput(
            f"The {kind}'s spec has no run",
            path,
            "Put the run's spec below 'run'; docs/many-runs.md has examples",
        )
    if kind == "run" and "run" in document and "job" not in document:
        raise InvalidInput(
            "This is the spec of an array or a schedule, not a run's",
            path,
            f"trainyard array submit {path}, or trainyard schedule add {path}",
        )
    if kind == "cluster" and "job" in document and not of_a_cluster:
        raise InvalidInput(
            "This is a run's spec, not a cluster's", path, f"trainyard run submit {path}"
        )


def read_chain(path: str) -> list[Any]:
    """The runs of a chain's file, as they are written. Raises InvalidInput."""
    runs = read_spec(path).get("runs")
    if not isinstance(runs, list):
        raise InvalidInput(
            "The file has no list of runs",
            f"{path}: runs: must be a list of runs' specs",
            "docs/many-runs.md has an example",
        )
    return runs


def _text_of(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "The spec cannot be read",
            f"{path}: {_words(error)}",
            "Give the path of a YAML or JSON file, or - for standard input",
        ) from error


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        document = of_yaml(text, _texts_of_job)
    # Also for a date or a number that does not exist.
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise InvalidInput(
            "The spec is not YAML",
            f"{path}: {error}",
            ESCAPES if is_escape(error) else "Correct that line; examples/ has specs that work",
        ) from error
    if not isinstance(document, dict):
        raise InvalidInput(
            "The spec is empty or no mapping", path, "Start from one of examples/*.yaml"
        )
    return document


def is_escape(error: Exception) -> bool:
    r"""Whether YAML stumbled over a \ in double quotes."""
    problem = getattr(error, "problem", None) or ""
    return "escape character" in problem or "escape sequence" in problem


def _written_out(value: Any, known: dict[int, int]) -> int:
    """How many values it has once every alias is written out; nothing is written for that."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = 0  # JSON refuses a list that holds itself
        inner = list(value.values()) if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_written_out(one, known) for one in inner)
    return known[id(value)]


def _no_number(value: Any, path: str = "") -> str | None:
    """The first field with .nan or .inf, which JSON does not know."""
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if not isinstance(value, (dict, list)):
        return None
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = (_no_number(one, f"{path}.{name}" if path else str(name)) for name, one in pairs)
    return next((one for one in found if one is not None), None)


def _words(error: OSError | UnicodeDecodeError) -> str:
    return (
        "is not text in UTF-8"
        if isinstance(error, UnicodeDecodeError)
        else error.strerror or str(error)
    )
