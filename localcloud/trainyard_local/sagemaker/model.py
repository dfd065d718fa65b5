"""Refuses SageMaker requests that do not fit botocore's own model, in AWS's words."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session

from trainyard_local.sagemaker.errors import ValidationException


def check(operation: str, params: Mapping[str, Any]) -> None:
    """Raise ValidationException, in AWS's words, if `params` do not fit the operation's input."""
    if problem := misfit(input_shape(operation), params):
        raise ValidationException(problem)


def misfit(shape: Any, params: Mapping[str, Any]) -> str:
    """What of the parameters does not fit the shape, in AWS's words; '' if all does."""
    problems = list(_violations(shape, params, ""))
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected: "
    return count + "; ".join(problems) if problems else ""


@functools.cache
def input_shape(operation: str, service: str = "sagemaker") -> Any:
    """botocore's shape of the operation's input."""
    model = botocore.session.get_session().get_service_model(service)
    return model.operation_model(operation).input_shape


def _violations(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure":
        yield from _structure(shape, value, path)
    elif shape.type_name == "list":
        yield from _bounds(shape, len(value), value, path, "length")
        for number, item in enumerate(value, start=1):
            yield from _violations(shape.member, item, f"{path}.{number}.member")
    elif shape.type_name == "string":
        yield from _string(shape, value, path)
    elif shape.type_name == "map":
        yield from _map(shape, value, path)
    elif shape.type_name in ("integer", "long"):
        yield from _bounds(shape, value, value, path, "value")


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, member in shape.members.items():
        inner = ".".join(part for part in (path, name[0].lower() + name[1:]) if part)
        if value.get(name) is not None:
            yield from _violations(member, value[name], inner)
        elif name in shape.required_members:
            yield f"Value null at '{inner}' failed to satisfy constraint: Member must not be null"


def _map(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), value, path, "length")
    for key, item in value.items():
        yield from _violations(shape.key, key, f"{path}.key")
        yield from _violations(shape.value, item, f"{path}.{key}.value")


def _string(shape: Any, value: str, path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), value, path, "length")
    prefix = f"Value '{value}' at '{path}' failed to satisfy constraint: "
    if shape.enum and value not in shape.enum:
        yield prefix + f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
    pattern = shape.metadata.get("pattern")
    # Python's re has no \p{..}; the tags' pattern is the only one that uses it.
    if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
        yield prefix + f"Member must satisfy regular expression pattern: {pattern}"


def _bounds(shape: Any, size: int, value: Any, path: str, what: str) -> Iterator[str]:
    prefix = f"Value '{value}' at '{path}' failed to satisfy constraint: Member must have {what} "
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield prefix + f"greater than or equal to {low}"
    if high is not None and size > high:
        yield prefix + f"less than or equal to {high}"
