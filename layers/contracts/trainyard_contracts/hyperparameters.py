"""Hyperparameters of a program, as CreateTrainingJob takes them, and no others: the same spec is to
run on every backend.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue, ValidationInfo, WithJsonSchema

from .base import accepted, matching

#: Hyperparameters of a job. A training job has some of ours among them.
MOST_HYPERPARAMETERS = 100
#: Characters of a hyperparameter's name (botocore: HyperParameterKey).
LONGEST_NAME = 256
#: Characters of a hyperparameter, as it is sent (botocore: HyperParameterValue).
LONGEST_VALUE = 2500
#: AWS's containers take names that begin so for themselves, and these.
_AWSS_PREFIX = "sagemaker_"
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")
_AWSS = ("_tuning_objective_metric", "default_user_module_name")


def encoded(value: Any) -> str:
    """As AWS's SDK sends it: JSON, so that a text has quotes of its own."""
    return json.dumps(value)


def _free(name: str, info: ValidationInfo) -> str:
    if not accepted(info) and (name.startswith(_AWSS_PREFIX) or name in _AWSS):
        raise ValueError(
            f"'{name[:100]}' is a name that AWS's containers take for themselves, and no program "
            "would see it; choose another one"
        )
    return name


def _sendable(value: JsonValue, info: ValidationInfo) -> JsonValue:
    if accepted(info):
        return value
    for part in _parts(value):
        if isinstance(part, float) and not math.isfinite(part):
            raise ValueError("must be JSON, which has no infinity and no nan; give a text")
        if isinstance(part, str) and _UNSENDABLE.search(part):
            raise ValueError("must not contain the NUL character or half of a surrogate pair")
    size = len(encoded(value))
    if size > LONGEST_VALUE:
        raise ValueError(
            f"has {size} characters as JSON, and AWS takes {LONGEST_VALUE}; put it into a file"
        )
    return value


def _parts(value: JsonValue) -> Iterator[JsonValue]:
    yield value
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _parts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _parts(one)


# It becomes an option (--NAME) and a variable (SM_HP_NAME): no '=', no space, no hyphen first.
HyperparameterName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        f"must be letters, digits and _ . -, 1 to {LONGEST_NAME} of them, no hyphen or dot first",
        max_length=LONGEST_NAME,
    ),
    AfterValidator(_free),
]
HyperparameterValue = Annotated[
    JsonValue,
    AfterValidator(_sendable),
    # Any JSON; without a name of its own in the API.
    WithJsonSchema({}),
]
