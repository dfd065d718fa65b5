"""Reads a spec by the member of a union that its `backend` names; the wire stays flat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, InitErrorDetails, core_schema

from .base import accepted


class ByBackend:
    """Annotates a union of specs. One that names no backend is the first member's.

    pydantic's own discriminator knows no default, and puts the tag into the place of each error.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        members = {_backend(member): member for member in get_args(source)}
        if not members:  # a union of one class is that class
            return handler(source)
        return core_schema.with_info_before_validator_function(
            lambda given, info: _read(given, members, info), handler(source)
        )


def _backend(member: type[BaseModel]) -> str:
    (name,) = get_args(member.model_fields["backend"].annotation)
    return str(name)


def _read(given: Any, members: Mapping[str, type[BaseModel]], info: ValidationInfo) -> Any:
    if isinstance(given, tuple(members.values())):
        return given
    if not isinstance(given, dict):
        kind = InitErrorDetails(type="model_type", input=given, ctx={"class_name": "ClusterSpec"})
        raise ValidationError.from_exception_data("ClusterSpec", [kind])
    if "backend" not in given and not accepted(info):
        _check_unnamed(given, members)
    name = given.get("backend", next(iter(members)))
    if name not in list(members):
        expected = " or ".join(f"'{known}'" for known in members)
        mistake = InitErrorDetails(
            type="literal_error", loc=("backend",), input=name, ctx={"expected": expected}
        )
        raise ValidationError.from_exception_data("ClusterSpec", [mistake])
    return members[name].model_validate(
        given, extra="ignore" if accepted(info) else None, context=info.context
    )


def _check_unnamed(given: Mapping[str, Any], members: Mapping[str, type[BaseModel]]) -> None:
    """Refuse a spec without `backend` whose fields are another backend's: that one was meant."""
    first, *others = members
    known = {name: [one for one in given if one in _fields(members[name])] for name in members}
    meant = max(others, key=lambda name: len(known[name]))
    if len(known[meant]) <= len(known[first]):
        return
    strange = [one for one in known[meant] if one not in known[first]]
    fields = " and ".join(f"'{one}'" for one in strange[:3])
    words = (
        f"is needed: {fields} {'is' if len(strange) == 1 else 'are'} of backend '{meant}', "
        f"and a spec that names none is read as '{first}'; give backend: {meant}"
    )
    mistake = InitErrorDetails(
        type="value_error", loc=("backend",), input=None, ctx={"error": ValueError(words)}
    )
    raise ValidationError.from_exception_data("ClusterSpec", [mistake])


def _fields(member: type[BaseModel]) -> set[str]:
    """Names by which a spec may give the fields."""
    named = member.model_fields
    return {*named, *(field.alias for field in named.values() if field.alias)}
