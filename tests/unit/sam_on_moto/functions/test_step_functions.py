"""A state machine that would not run as on AWS is refused when it is made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sam_on_moto.functions import step_functions


def definition(**state: Any) -> str:
    task = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True}
    return json.dumps({"StartAt": "A", "States": {"A": {**task, **state}}})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"Resource": "arn:aws:states:::dynamodb:putItem"}, "state A: the local cloud runs"),
        ({"QueryLanguage": "JSONata"}, "JSONPath states only"),
        (
            {"Catch": [{"ErrorEquals": ["States.ALL"], "Next": "B"}]},
            "leads to B, which does not exist",
        ),
        (
            {
                "Type": "Map",
                "ItemProcessor": {"StartAt": "X", "States": {"X": {"Type": "Pass", "Next": "Y"}}},
            },
            "state X: leads to Y",
        ),
    ],
)
def test_a_machine_that_would_not_run_as_on_aws_is_refused(
    state: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        step_functions.check_definition("m", definition(**state))
