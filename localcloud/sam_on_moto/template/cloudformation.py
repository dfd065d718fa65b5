"""Deploys a CloudFormation template as one stack: parameters, conditions, order of creation.

Whatever it does not know is an error.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
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
from sam_on_moto.template.resources import ADDED, ADDED_LATE, TYPES, UPDATES, Maker, Wanted

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

    Of what is new, the types in ADDED and ADDED_LATE are made. Everything else must be as it was.
    Where it is not, raises TemplateError, and nothing that was there is changed.
    """
    check(template, parameters)
    scope = _scope(cloud, stack.name, template, parameters)
    scope.resources.update(stack.resources)
    wanted = dict(_wanted(template, scope))
    properties = dict(_added(stack, wanted, scope, maker, ADDED))
    if wrong := list(_not_updated(stack, wanted, scope)):
        raise TemplateError(
            "the local cloud cannot update this; take it down and up:\n  " + "\n  ".join(wrong)
        )
    changes = []
    for logical_id, one in wanted.items():
        if logical_id not in scope.resources or logical_id in properties:
            continue
        with _named(logical_id, one):
            properties[logical_id] = resolve(one.get("Properties", {}), scope)
            if update := UPDATES.get(one["Type"]):
                own = Wanted(stack.name, logical_id, properties[logical_id])
                changes.append(update.prepare(maker, own, stack.resources[logical_id].physical_id))
    properties |= dict(_added(stack, wanted, scope, maker, ADDED_LATE))
    made = Stack(stack.name, scope.resources, _outputs(template, scope), properties)
    for change in changes:  # all that can be wrong with the template was found before
        change()
    return made


def _added(
    stack: Stack, wanted: Mapping[str, Any], scope: Scope, maker: Maker, types: Container[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Make the new resources of these types, each after those that it refers to."""
    for logical_id, one in wanted.items():
        if logical_id not in stack.resources and one["Type"] in types:
            with _named(logical_id, one):
                properties = resolve(one.get("Properties", {}), scope)
                own = deepcopy(properties)  # moto writes into what it is given
                made = TYPES[one["Type"]].make(maker, Wanted(stack.name, logical_id, own))
            scope.resources[logical_id] = Resource(logical_id, one["Type"], *made)
            yield logical_id, properties


def _not_updated(stack: Stack, wanted: Mapping[str, Any], scope: Scope) -> Iterator[str]:
    """What the template changes of a resource that only a new stack could have."""
    for name, one in wanted.items():
        if name not in scope.resources and one["Type"] not in ADDED_LATE:
            yield f"{name}: it is new"
    yield from (f"{name}: it is gone" for name in stack.resources if name not in wanted)
    for name, one in wanted.items():
        if name not in stack.resources:
            continue
        with _named(name, one):
            now, before = resolve(one.get("Properties", {}), scope), stack.properties[name]
        kept = {*now, *before} - (
            UPDATES[one["Type"]].properties if one["Type"] in UPDATES else set()
        )
        others = sorted(key for key in kept if now.get(key) != before.get(key))
        if others:
            yield f"{name} ({one['Type']}): {', '.join(others)} would change"


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
    wanted = {k: r for k, r in template["Resources"].items() if _holds(k, r, scope)}
    yield from ((logical_id, wanted[logical_id]) for logical_id in _order(wanted))


def _outputs(template: Mapping[str, Any], scope: Scope) -> dict[str, str]:
    found = {}
    for name, output in template.get("Outputs", {}).items():
        if _holds(name, output, scope):
            with _told_as_mistake(f"Outputs.{name}"):
                found[name] = str(resolve(output["Value"], scope))
    return found


def _holds(name: str, part: Mapping[str, Any], scope: Scope) -> bool:
    """Whether a resource or an output with these words is made at all."""
    with _told_as_mistake(name):
        return "Condition" not in part or truth(part["Condition"], scope)


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
    if not isinstance(declared, Mapping):
        raise TemplateError("Parameters must be a map of names to their types")
    unknown = set(given) - set(declared)
    if unknown:
        raise TemplateError(
            f"the template has no parameter {sorted(unknown)}; it has {sorted(declared)}"
        )
    values: dict[str, Any] = {}
    for name, rules in declared.items():
        if not isinstance(rules, Mapping) or not isinstance(rules.get("Type"), str):
            raise TemplateError(f"the parameter {name} needs a Type")
        if name not in given and "Default" not in rules:
            raise TemplateError(f"the parameter {name} has no default and needs a value")
        value = str(given.get(name, rules.get("Default")))
        with _told_as_mistake(f"the parameter {name}"):
            _check_parameter(name, value, rules)
        listed = rules["Type"] == "CommaDelimitedList" or rules["Type"].startswith("List<")
        values[name] = [part.strip() for part in value.split(",")] if listed else value
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
    shortest, longest = int(rules.get("MinLength", 0)), int(rules.get("MaxLength", len(value)))
    if not shortest <= len(value) <= longest:
        raise TemplateError(
            f"parameter {name}={value!r} must have {shortest} to {longest} characters. {hint}"
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
        if not isinstance(resource, Mapping) or not isinstance(resource.get("Type"), str):
            yield f"{logical_id}: it is no resource: it has no Type"
            continue
        depends = resource.get("DependsOn", [])
        for name in [depends] if isinstance(depends, str) else depends:
            if name not in resources:
                yield f"{logical_id}: it depends on {name}, which is no resource"
        kind = TYPES.get(resource["Type"])
        if kind is None:
            yield f"{logical_id}: the resource type {resource['Type']} is not supported"
            continue
        for attribute in sorted(set(resource) - _ATTRIBUTES):
            yield f"{logical_id} ({resource['Type']}): the attribute {attribute} is not supported"
        properties = resource.get("Properties", {})
        if not isinstance(properties, Mapping):
            yield f"{logical_id} ({resource['Type']}): Properties must be a map"
            continue
        for name in sorted(set(properties) - kind.properties):
            yield f"{logical_id} ({resource['Type']}): the property {name} is not supported"
        for complaint in kind.complaints(properties):
            yield f"{logical_id} ({resource['Type']}): {complaint}"


def _order(resources: Mapping[str, Any]) -> list[str]:
    graph = {}
    for logical_id, resource in resources.items():
        depends = resource.get("DependsOn", [])
        with _named(logical_id, resource):
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


def _named(logical_id: str, resource: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Whatever goes wrong inside names the resource."""
    return _told_as_mistake(f"{logical_id} ({resource['Type']})")


@contextmanager
def _told_as_mistake(place: str) -> Iterator[None]:
    """Whatever goes wrong inside is a mistake of the template at this place."""
    try:
        yield
    except TemplateError as error:
        raise TemplateError(f"{place}: {error}") from None
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        re.error,
    ) as error:
        raise TemplateError(f"{place}: {type(error).__name__}: {error}") from error
