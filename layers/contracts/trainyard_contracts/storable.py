"""Finds values of the right type that nobody can store, calculate with or send on."""

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Union

from pydantic import BaseModel
from pydantic_core import InitErrorDetails, PydanticCustomError

# A value may be of the right type and still be one that nobody can store: `mistakes`. What is
# stored already is read without these bounds.
#: A time in another year is none: a clock that was never set says 1970.
YEARS = range(1900, 3000)
LARGEST_NUMBER = 2**63
#: Longer than the id of any run, and shorter than the longest key of the table.
LONGEST_ID = 256

Place = tuple[Union[str, int], ...]


def mistakes(told: BaseModel) -> list[InitErrorDetails]:
    """Each text, number and time in it that cannot be stored, calculated with or sent on."""
    kind = PydanticCustomError("unstorable", "cannot be stored")
    return [
        InitErrorDetails(type=kind, loc=place, input=value)
        for place, value in _leaves(told, ())
        if not _storable(place, value)
    ]


def _leaves(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, BaseModel):
        for name, inner in value:
            yield from _leaves(inner, (*place, type(value).model_fields[name].alias or name))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _leaves(inner, (*place, position))
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield place, name
            yield from _leaves(inner, (*place, name))
    else:
        yield place, value


def _storable(place: Place, value: Any) -> bool:
    if isinstance(value, str):
        whole = not any("\ud800" <= character <= "\udfff" for character in value)
        return whole and (place != ("runId",) or len(value) <= LONGEST_ID)
    if isinstance(value, datetime):
        return value.year in YEARS
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < LARGEST_NUMBER
