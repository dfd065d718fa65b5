"""Reads a spec from YAML or JSON; a typing error is reported by line before anything is sent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import yaml

from .problems import InvalidInput

#: The API takes 256 KiB, and a value is two characters at least.
MOST_VALUES = 128 * 1024


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


def read_spec(path: str, kind: Literal["run", "cluster"] | None = None) -> dict[str, Any]:
    """The spec in the file, or on standard input for '-', of that kind or of any.

    Raises InvalidInput.
    """
    document = _parsed(path)
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
    # The other kind's file is a common slip, and its fields would be refused one by one.
    if kind == "run" and "instanceGroups" in document and "job" not in document:
        raise InvalidInput(
            "This is a cluster's spec, not a run's", path, f"trainyard cluster create {path}"
        )
    if kind == "cluster" and "job" in document and "instanceGroups" not in document:
        raise InvalidInput(
            "This is a run's spec, not a cluster's", path, f"trainyard run submit {path}"
        )
    return document


def _parsed(path: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "The spec cannot be read",
            f"{path}: {_words(error)}",
            "Give the path of a YAML or JSON file, or - for standard input",
        ) from error
    try:
        document = yaml.load(text, Loader=_Once)  # noqa: S506 - a SafeLoader
    # Also for a date or a number that does not exist.
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise InvalidInput(
            "The spec is not YAML",
            f"{path}: {error}",
            "Correct that line; examples/ has specs that work",
        ) from error
    if not isinstance(document, dict):
        raise InvalidInput(
            "The spec is empty or no mapping", path, "Start from one of examples/*.yaml"
        )
    return document


def _written_out(value: Any, known: dict[int, int]) -> int:
    """How many values it has once every alias is written out; nothing is written for that."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = 0  # JSON refuses a list that holds itself
        inner = list(value.values()) if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_written_out(one, known) for one in inner)
    return known[id(value)]


def _words(error: OSError | UnicodeDecodeError) -> str:
    return (
        "is not text in UTF-8"
        if isinstance(error, UnicodeDecodeError)
        else error.strerror or str(error)
    )
