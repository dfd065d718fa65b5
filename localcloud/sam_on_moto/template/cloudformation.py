"""Deploys a CloudFormation template as one stack: parameters, conditions, order of creation.

Whatever it does not know is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from sam_on_moto.cloud import Cloud
from sam_on_moto.template.intrinsics import (
    Resource,
    Scope,
    TemplateError,
    references,
    resolve,
    truth,
)
from sam_on_moto.template.resources import TYPES, UPDATES, Maker, Wanted

_SECTIONS = {
    "AWSTemplateFormatVersion",
    "Description",
    "Parameters",
    "Conditions",
    "Mappings",
    "Resources",
    "Outputs",
    "Metadata",
    "Transform",
    "Rules",
}
_ATTRIBUTES = {
    "Type",
    "Properties",
    "DependsOn",
    "Condition",
    "DeletionPolicy",
    "UpdateReplacePolicy",
    "Metadata",
}


@dataclass(frozen=True)
class Stack:
    """A deployed stack."""

    name: str
    resources: Mapping[str, Resource]
    outputs: Mapping[str, str]
    properties: Mapping[str, dict[str, Any]]

    def of_type(self, type_name: str) -> list[Resource]:
        return [r for r in self.resources.values() if r.type == type_name]


def check(template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
    """Everything that can be known to be wrong before anything is made.

    Raises TemplateError listing all of it.
    """
    unknown = set(template) - _SECTIONS
    if unknown:
        raise TemplateError(
            f"the template has sections the local cloud does not know: {sorted(unknown)}"
        )
    parameter_values(template.get("Parameters", {}), parameters)
    wrong = list(_complaints(template["Resources"]))
    if wrong:
        raise TemplateError("the local cloud cannot deploy this template:\n  " + "\n  ".join(wrong))
    _order(template["Resources"])


def deploy(
    cloud: Cloud,
    name: str,
    template: Mapping[str, Any],
    parameters: Mapping[str, str],
    maker: Maker,
) -> Stack:
    """Make every resource of the template, in order of their references.

    Raises TemplateError naming the type and logical id of what cannot be made. Nothing is rolled
    back: the caller ends the cloud.
    """
    check(template, parameters)
    scope = _scope(cloud, name, template, parameters)
    properties = {}
    for logical_id, wanted in _wanted(template, scope):
        with _named(logical_id, wanted):
            properties[logical_id] = resolve(wanted.get("Properties", {}), scope)
            own = deepcopy(properties[logical_id])  # moto writes into what it is given
            made = TYPES[wanted["Type"]].make(maker, Wanted(name, logical_id, own))
        scope.resources[logical_id] = Resource(logical_id, wanted["Type"], *made)
    return Stack(name, scope.resources, _outputs(template, scope), properties)


def update(
    cloud: Cloud,
    stack: Stack,
    template: Mapping[str, Any],
    parameters: Mapping[str, str],
    maker: Maker,
) -> Stack:
    """Give the stack's functions, layers, state machines and roles what the template says now.

    Everything else must be as it was. Where it is not, raises TemplateError, and nothing was
    changed.
    """
    check(template, parameters)
    scope = _scope(cloud, stack.name, template, parameters)
    scope.resources.update(stack.resources)
    wanted = dict(_wanted(template, scope))
    if wrong := _not_updated(stack, wanted, scope):
        raise TemplateError(
            "the local cloud cannot update this; take it down and up:\n  " + "\n  ".join(wrong)
        )
    properties = {name: resolve(one.get("Properties", {}), scope) for name, one in wanted.items()}
    for logical_id, one in wanted.items():
        if change := UPDATES.get(one["Type"]):
            physical_id = stack.resources[logical_id].physical_id
            with _named(logical_id, one):
                change(maker, Wanted(stack.name, logical_id, properties[logical_id]), physical_id)
    return Stack(stack.name, scope.resources, _outputs(template, scope), properties)


def _not_updated(stack: Stack, wanted: Mapping[str, Any], scope: Scope) -> list[str]:
    """What the template changes of a resource that only a new stack could have."""
    added = [f"{name}: it is new" for name in wanted if name not in stack.resources]
    gone = [f"{name}: it is gone" for name in stack.resources if name not in wanted]
    if added or gone:
        return [*added, *gone]
    return [
        f"{name} ({one['Type']}): its properties are others"
        for name, one in wanted.items()
        if one["Type"] not in UPDATES
        and resolve(one.get("Properties", {}), scope) != stack.properties[name]
    ]


def _scope(
    cloud: Cloud, name: str, template: Mapping[str, Any], parameters: Mapping[str, str]
) -> Scope:
    return Scope(
        parameters=parameter_values(template.get("Parameters", {}), parameters),
        pseudo=_pseudo(cloud, name),
        conditions=template.get("Conditions", {}),
        mappings=template.get("Mappings", {}),
    )


def _wanted(template: Mapping[str, Any], scope: Scope) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The resources whose condition holds, each after those that it refers to."""
    wanted = {
        k: r
        for k, r in template["Resources"].items()
        if "Condition" not in r or truth(r["Condition"], scope)
    }
    yield from ((logical_id, wanted[logical_id]) for logical_id in _order(wanted))


def _outputs(template: Mapping[str, Any], scope: Scope) -> dict[str, str]:
    outputs = template.get("Outputs", {})
    shown = {
        k: o for k, o in outputs.items() if "Condition" not in o or truth(o["Condition"], scope)
    }
    return {k: str(resolve(o["Value"], scope)) for k, o in shown.items()}


def _pseudo(cloud: Cloud, name: str) -> dict[str, Any]:
    return {
        "AWS::StackName": name,
        "AWS::StackId": (
            f"arn:aws:cloudformation:{cloud.region}:{cloud.account_id}:stack/{name}/local"
        ),
        "AWS::Region": cloud.region,
        "AWS::AccountId": cloud.account_id,
        "AWS::Partition": "aws",
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::NotificationARNs": [],
    }


def parameter_values(declared: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Given values over defaults, checked as CloudFormation checks them. Raises TemplateError."""
    unknown = set(given) - set(declared)
    if unknown:
        raise TemplateError(
            f"the template has no parameter {sorted(unknown)}; it has {sorted(declared)}"
        )
    values = {}
    for name, rules in declared.items():
        if name not in given and "Default" not in rules:
            raise TemplateError(f"the parameter {name} has no default and needs a value")
        value = str(given.get(name, rules.get("Default")))
        _check_parameter(name, value, rules)
        values[name] = (
            value.split(",") if rules["Type"] in ("CommaDelimitedList", "List<Number>") else value
        )
    return values


def _check_parameter(name: str, value: str, rules: Mapping[str, Any]) -> None:
    hint = rules.get("ConstraintDescription", "")
    if "AllowedValues" in rules and value not in map(str, rules["AllowedValues"]):
        raise TemplateError(
            f"parameter {name}={value!r} must be one of {rules['AllowedValues']}. {hint}"
        )
    if "AllowedPattern" in rules and not re.fullmatch(rules["AllowedPattern"], value):
        raise TemplateError(
            f"parameter {name}={value!r} must match {rules['AllowedPattern']}. {hint}"
        )
    if rules["Type"] != "Number":
        return
    try:
        number = float(value)
    except ValueError:
        raise TemplateError(f"parameter {name}={value!r} must be a number. {hint}") from None
    if number < float(rules.get("MinValue", number)) or number > float(
        rules.get("MaxValue", number)
    ):
        raise TemplateError(
            f"parameter {name}={value} must lie between {rules.get('MinValue')} and "
            f"{rules.get('MaxValue')}. {hint}"
        )


def _complaints(resources: Mapping[str, Any]) -> Iterator[str]:
    for logical_id, resource in resources.items():
        kind = TYPES.get(resource["Type"])
        if kind is None:
            yield f"{logical_id}: the resource type {resource['Type']} is not supported"
            continue
        for attribute in sorted(set(resource) - _ATTRIBUTES):
            yield f"{logical_id} ({resource['Type']}): the attribute {attribute} is not supported"
        for name in sorted(set(resource.get("Properties", {})) - kind.properties):
            yield f"{logical_id} ({resource['Type']}): the property {name} is not supported"
        for complaint in kind.complaints(resource.get("Properties", {})):
            yield f"{logical_id} ({resource['Type']}): {complaint}"


def _order(resources: Mapping[str, Any]) -> list[str]:
    graph = {}
    for logical_id, resource in resources.items():
        depends = resource.get("DependsOn", [])
        named = references(resource.get("Properties", {})) | set(
            [depends] if isinstance(depends, str) else depends
        )
        graph[logical_id] = named & set(resources)
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as cycle:
        raise TemplateError(
            f"circular dependency between resources: {' -> '.join(cycle.args[1])}"
        ) from None


@contextmanager
def _named(logical_id: str, resource: Mapping[str, Any]) -> Iterator[None]:
    """Whatever goes wrong inside names the resource."""
    try:
        yield
    except TemplateError as error:
        raise TemplateError(f"{logical_id} ({resource['Type']}): {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise TemplateError(
            f"{logical_id} ({resource['Type']}): {type(error).__name__}: {error}"
        ) from error
