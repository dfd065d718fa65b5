"""The parts of a local cloud are put together; what a person gives to the command is read."""

from __future__ import annotations

import argparse

import pytest

from sam_on_moto import assembly


def test_parameters_are_texts_however_json_writes_them() -> None:
    given = assembly.parameters('{"Name": "x", "Count": 3, "Really": true}')
    assert given == {"Name": "x", "Count": "3", "Really": "true"}


@pytest.mark.parametrize("text", ["Name=x", "[1]", '"x"', '{"Names": ["x"]}', '{"Name": null}', ""])
def test_parameters_that_are_no_object_of_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        assembly.parameters(text)
    assert str(refused.value).startswith(f"{text} is no JSON object")
    assert """such as '{"Name": "x"}'""" in str(refused.value)
