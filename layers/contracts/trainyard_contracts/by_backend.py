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
