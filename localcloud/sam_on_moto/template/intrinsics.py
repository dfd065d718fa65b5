"""Resolves a template's intrinsic functions and conditions, once what they refer to exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sam_on_moto.cloud import Refused

_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]+)\}")
NO_VALUE = object()


class TemplateError(Refused):
    """The template cannot be deployed; the message says which resource and why."""


@dataclass(frozen=True)
class Resource:
    """A resource that was made: what Ref and GetAtt give."""

    logical_id: str
    type: str
    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Scope:
    """What a template's values may refer to."""

    parameters: Mapping[str, Any]
    pseudo: Mapping[str, Any]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)


def references(node: Any) -> set[str]:
    """Every name that Ref, GetAtt and Sub mention in a value."""
    if isinstance(node, list):
        return set().union(*map(references, node)) if node else set()
    if not isinstance(node, Mapping):
        return set()
    found: set[str] = set()
    for key, value in node.items():
        if key == "Ref":
            found.add(value)
        elif key == "Fn::GetAtt":
            found.add(value.split(".")[0] if isinstance(value, str) else value[0])
        elif key == "Fn::Sub":
            text, variables = (value, {}) if isinstance(value, str) else value
            found |= {
                m[2].split(".")[0]
                for m in _PLACEHOLDER.finditer(text)
                if not m[1] and m[2] not in variables
            }
            found |= references(variables)
        else:
            found |= references(value)
    return found


def resolve(node: Any, scope: Scope) -> Any:
    """The value with every function computed; AWS::NoValue drops its key or element.

    Raises TemplateError.
    """
    if isinstance(node, list):
        return [v for v in (resolve(element, scope) for element in node) if v is not NO_VALUE]
    if not isinstance(node, Mapping):
        return node
    if len(node) == 1:
        ((name, argument),) = node.items()
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](argument, scope)
        if name.startswith("Fn::"):
            raise TemplateError(f"the local cloud does not know the function {name}")
    resolved = ((key, resolve(value, scope)) for key, value in node.items())
    return {key: value for key, value in resolved if value is not NO_VALUE}


def truth(condition: Any, scope: Scope) -> bool:
    """Whether a condition (by name, or its expression) holds."""
    if isinstance(condition, str):
        if condition not in scope.conditions:
            raise TemplateError(f"there is no condition {condition}")
        return truth(scope.conditions[condition], scope)
    ((name, argument),) = condition.items()
    match name:
        case "Fn::Equals":
            left, right = (resolve(side, scope) for side in argument)
            return str(left) == str(right)
        case "Fn::Not":
            return not truth(argument[0], scope)
        case "Fn::And":
            return all(truth(a, scope) for a in argument)
        case "Fn::Or":
            return any(truth(a, scope) for a in argument)
        case "Condition":
            return truth(argument, scope)
    raise TemplateError(f"the local cloud does not know the condition function {name}")


def _ref(name: str, scope: Scope) -> Any:
    if name == "AWS::NoValue":
        return NO_VALUE
    if name in scope.pseudo:
        return scope.pseudo[name]
    if name in scope.parameters:
        return scope.parameters[name]
    if name in scope.resources:
        return scope.resources[name].physical_id
    raise TemplateError(f"Ref to {name}, which is neither a parameter nor a resource")


def _get_att(argument: Any, scope: Scope) -> Any:
    name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
    resource = scope.resources.get(name)
    if resource is None:
        raise TemplateError(f"GetAtt of {name}, which is no resource")
    if attribute not in resource.attributes:
        raise TemplateError(
            f"the local cloud does not know the attribute {attribute} of {resource.type} ({name})"
        )
    return resource.attributes[attribute]


def _sub(argument: Any, scope: Scope) -> str:
    text, variables = (argument, {}) if isinstance(argument, str) else argument
    values = {name: resolve(value, scope) for name, value in variables.items()}

    def value_of(match: re.Match[str]) -> str:
        literal, name = match[1], match[2].strip()
        if literal:
            return "${" + name + "}"
        if name in values:
            return str(values[name])
        return str(_get_att(name, scope) if "." in name else _ref(name, scope))

    return _PLACEHOLDER.sub(value_of, text)


def _if(argument: Any, scope: Scope) -> Any:
    condition, then, otherwise = argument
    return resolve(then if truth(condition, scope) else otherwise, scope)


def _find_in_map(argument: Any, scope: Scope) -> Any:
    table, first, second = (resolve(a, scope) for a in argument)
    return scope.mappings[table][first][second]


_FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Ref": _ref,
    "Fn::GetAtt": _get_att,
    "Fn::Sub": _sub,
    "Fn::If": _if,
    "Fn::FindInMap": _find_in_map,
    "Fn::Join": lambda a, s: a[0].join(str(part) for part in resolve(a[1], s)),
    "Fn::Split": lambda a, s: str(resolve(a[1], s)).split(a[0]),
    "Fn::Select": lambda a, s: resolve(a[1], s)[int(resolve(a[0], s))],
}
