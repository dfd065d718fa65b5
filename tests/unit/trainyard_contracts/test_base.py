"""What a person asks for is judged by rules, once; what is stored is only read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from trainyard_contracts.base import Strict, judged, read_stored, rule


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


class Part(Strict):
    number: Annotated[int, judged(_even)] = 0
    most: int = 10

    @rule
    def _in_order(self) -> Part:
        if self.number > self.most:
            raise ValueError("number: must be at most 'most'")
        return self


class Whole(Strict):
    part: Part
    parts: list[Part] = []


class Other(Strict):
    part: Part | None = None


WRONG = [{"number": 12}, {"number": 3}]


@pytest.mark.parametrize("given", WRONG)
def test_a_request_is_judged_however_it_comes(given: dict[str, Any]) -> None:
    for read in (
        lambda: Part(**given),
        lambda: Part.model_validate(given),
        lambda: Whole.model_validate_json(json.dumps({"part": given})),
        lambda: Whole.model_validate({"part": {}, "parts": [given]}),
    ):
        with pytest.raises(ValidationError, match="Value error"):
            read()


@pytest.mark.parametrize("given", WRONG)
def test_what_was_stored_is_not_judged_even_as_a_part_of_something_new(
    given: dict[str, Any],
) -> None:
    whole = read_stored(Whole, json.dumps({"part": given, "parts": [given], "later": 1}))
    assert whole.part == whole.parts[0]
    assert Other(part=whole.part).part == whole.part
    assert whole.changed(parts=[]).part == whole.part
    assert Other().changed(part=whole.part).part == whole.part


def test_a_stored_value_of_another_type_is_refused() -> None:
    with pytest.raises(ValidationError, match="valid integer"):
        read_stored(Part, '{"number": "many"}')
