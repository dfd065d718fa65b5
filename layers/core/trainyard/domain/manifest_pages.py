"""Reads an export's manifest in parts: that of 100,000 objects is too much for one answer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pydantic import ValidationError

from trainyard_contracts.files import ExportedObject

#: Where the objects begin; what comes before them is short.
_BEGIN = re.compile(r'"objects"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


class NotAManifest(ValueError):
    """The bytes are not the part of a manifest that they should be."""


@dataclass(frozen=True)
class Part:
    """Objects of a manifest; `end` is where to go on reading, None behind the last."""

    objects: list[ExportedObject]
    end: int | None


def read_part(window: bytes, start: int, most: int) -> Part:
    """At most so many objects that lie whole in the window, which begins at `start`.

    A part that is not the first begins where the one before ended. Raises NotAManifest.
    """
    text = window.decode(errors="ignore")  # the last sign may be cut
    place = 0
    if start == 0:
        begin = _BEGIN.search(text)
        if begin is None:
            raise NotAManifest("it names no objects")
        place = begin.end()
    found: list[ExportedObject] = []
    while True:
        between = _BETWEEN.match(text, place)
        place = between.end() if between else place
        if text[place : place + 1] == "]":
            return Part(found, None)
        if len(found) == most:
            break
        entry = _entry(text, place)
        if entry is None:
            break
        found.append(entry[0])
        place = entry[1]
    return Part(found, start + len(text[:place].encode()))


def _entry(text: str, place: int) -> tuple[ExportedObject, int] | None:
    """The object that begins here and where it ends; None where the window cuts it."""
    if place >= len(text):
        return None
    if text[place] != "{":
        raise NotAManifest("something else than an object is among its objects")
    try:
        value, end = _DECODER.raw_decode(text, place)
    except json.JSONDecodeError:
        return None
    try:
        return ExportedObject.model_validate(value), end
    except ValidationError as error:
        raise NotAManifest(f"an object of it has {error.error_count()} mistakes") from None
