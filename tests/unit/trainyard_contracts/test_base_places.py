"""A mistake is said at the field as a person wrote it, never at a class or at a part of a union."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

import trainyard_contracts.cluster_specs
import trainyard_contracts.specs  # noqa: F401 - so that all classes are known
from trainyard_contracts.base import Strict

#: Whatever it is given, a place holds nothing but names of fields, numbers and these.
WRITTEN = ["zz", "step (a)"]
WRONG: list[Any] = [
    "zz", "", 7, -1, 1.5, True, [], [7], ["zz"], [[]], [{}], [{"zz": 1}],
    {}, {"zz": 1}, {"zz": "zz"}, {"zz": {"zz": 1}}, {"step (a)": []}, {"regex": "zz"},
    {"regex": 7}, {"tensorboard": "a", "mlflow": "b"},
]  # fmt: skip


def classes(base: type[Strict]) -> Iterator[type[Strict]]:
    for known in base.__subclasses__():
        if known.__module__.startswith("trainyard_contracts."):
            yield known
        yield from classes(known)


ALL = sorted({*classes(Strict)}, key=lambda known: known.__name__)
NAMES = {
    str(field.alias or name) for known in ALL for name, field in known.model_fields.items()
} | {name for known in ALL for name in known.model_fields}


@pytest.mark.parametrize("known", ALL, ids=lambda known: known.__name__)
def test_a_place_has_only_what_a_person_wrote(known: type[Strict]) -> None:
    for name, field in known.model_fields.items():
        for value in WRONG:
            given = str(field.alias or name)
            try:
                known.model_validate({given: value})
            except ValidationError as error:
                for mistake in error.errors():
                    strange = [
                        part
                        for part in mistake["loc"]
                        if isinstance(part, str) and part not in (*NAMES, *WRITTEN, "[key]")
                    ]
                    assert not strange, (given, value, mistake["loc"])
