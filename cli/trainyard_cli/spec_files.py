"""Reads a spec from YAML or JSON, so that a typing error is told with its line before anything is sent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from .problems import InvalidInput


def read_spec(path: str) -> dict[str, Any]:
    """The spec in the file, or on standard input for '-'. Raises InvalidInput."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "The spec cannot be read", f"{path}: {error}", "Give the path of a YAML or JSON file, or - for standard input"
        ) from error
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput("The spec is not YAML", f"{path}: {error}", "Correct that line; examples/ has specs that work") from error
    if not isinstance(document, dict):
        raise InvalidInput("The spec is empty or no mapping", path, "Start from one of examples/*.yaml")
    return document
