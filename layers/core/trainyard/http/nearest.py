"""What was meant by a word that is not known: the nearest one of those that are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeAliasType

from trainyard.domain import errors as e
from trainyard.ports import Ports

_LOOKED_AT = 100


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known word that is most like it; None if none is like it."""
    by_small = {word.casefold(): word for word in known}
    found = difflib.get_close_matches(given.casefold()[:100], list(by_small), n=1, cutoff=0.6)
    return by_small[found[0]] if found else None


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """As the end of a sentence; empty if nothing is like it."""
    word = nearest(given, known)
    return f"; did you mean '{word}'?" if word else ""


def meant(ports: Ports, error: e.NotFound) -> str:
    """The same for a name that nothing has: one page of the newest is looked through."""
    try:
        return did_you_mean(error.given, _names_there(ports, error)) if error.given else ""
    except e.TrainyardError:  # it is no part of the answer
        return ""


def _names_there(ports: Ports, error: e.NotFound) -> list[str]:
    if isinstance(error, e.RunNotFound):
        return [run.name for run in ports.runs.list(limit=_LOOKED_AT, token=None).items]
    if isinstance(error, e.ClusterNotFound):
        clusters = ports.clusters.list(limit=_LOOKED_AT, token=None).items
        return [one.name for one in clusters if one.status != "Deleted"]
    if isinstance(error, e.FilesystemNotFound):
        filesystems = ports.filesystems.list(limit=_LOOKED_AT, token=None).items
        return [one.spec.name for one in filesystems if one.status != "Deleted"]
    if isinstance(error, e.ScheduleNotFound):
        return [one.name for one in ports.schedules.list(limit=_LOOKED_AT, token=None).items]
    return []


def fields_beside(annotations: Any, body: Any, place: Sequence[str | int]) -> list[str]:
    """The wire's names of the fields that are known where `place` in the body has an unknown one.

    Of a union it is the class that knows most of what is given there.
    """
    models = [model for one in annotations for model in _models(one)]
    for part in place[:-1]:
        models = [*_of_field(models, part)] or models
        body = _inside(body, part)
    given = body if isinstance(body, Mapping) else {}
    likely = max(models, key=lambda model: _takes(model, given), default=None)
    return sorted(_names(likely)) if likely else []


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def _of_field(models: Iterable[type[BaseModel]], name: str | int) -> Iterator[type[BaseModel]]:
    for model in models:
        for field_name, field in model.model_fields.items():
            if name in (field_name, field.alias):
                yield from _models(field.annotation)


def _takes(model: type[BaseModel], given: Mapping[str, Any]) -> int:
    """So many of the fields there are the class's; a word of its own that is another's is none."""
    by_name = {field.alias or name: field for name, field in model.model_fields.items()}
    known = [(by_name[name], value) for name, value in given.items() if name in by_name]
    return sum(
        get_origin(field.annotation) is not Literal or value in get_args(field.annotation)
        for field, value in known
    )


def _names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The classes in it, whatever is around them."""
    if isinstance(annotation, TypeAliasType):
        yield from _models(annotation.__value__)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _models(part)
