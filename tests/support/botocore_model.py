"""Checks requests against botocore's model further than botocore does: enums, patterns, lengths."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import botocore.session
from botocore.validate import validate_parameters


def request_problems(service: str, operation: str, request: dict[str, Any]) -> list[str]:
    """What in `request` the model of `operation` does not allow; [] when nothing."""
    shape = _model(service).operation_model(operation).input_shape
    validate_parameters(request, shape)
    return list(_problems(shape, request, operation))


@cache
def _model(service: str) -> Any:
    """SageMaker's is read in a fifth of a second, which counts where examples are generated."""
    return botocore.session.get_session().get_service_model(service)


def _problems(shape: Any, value: Any, path: str) -> Any:
    if shape.type_name == "structure":
        for name, member in value.items():
            yield from _problems(shape.members[name], member, f"{path}.{name}")
    elif shape.type_name == "map":
        yield from _bounds(shape, len(value), path)
        for key, member in value.items():
            yield from _problems(shape.key, key, f"{path}[{key!r}]")
            yield from _problems(shape.value, member, f"{path}[{key!r}]")
    elif shape.type_name == "list":
        yield from _bounds(shape, len(value), path)
        for index, member in enumerate(value):
            yield from _problems(shape.member, member, f"{path}[{index}]")
    elif shape.type_name == "string":
        yield from _bounds(shape, len(value), path)
        yield from _text(shape.metadata, value, path)
    elif shape.type_name in ("integer", "long"):
        yield from _bounds(shape, value, path)


def _bounds(shape: Any, size: int, path: str) -> Any:
    if not shape.metadata.get("min", size) <= size <= shape.metadata.get("max", size):
        low, high = (shape.metadata.get(name) for name in ("min", "max"))
        yield f"{path}: {size} is not within {low} and {high}"


def _text(metadata: dict[str, Any], value: str, path: str) -> Any:
    if metadata.get("enum") and value not in metadata["enum"]:
        yield f"{path}: {value!r} is not one of the model's values"
    pattern = metadata.get("pattern")
    if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
        yield f"{path}: {value!r} does not match {pattern}"
