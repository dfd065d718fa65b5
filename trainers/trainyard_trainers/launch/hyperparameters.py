"""Hyperparameters as a script of SageMaker's is given them: as arguments, in the way of AWS's
toolkit (sagemaker-training 5.1: to_cmd_args of mapping.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def arguments(hyperparameters: Mapping[str, Any]) -> list[str]:
    """--NAME VALUE of each, by name; a name of one letter is -N. A map becomes a=1,b=2, and what
    else is no text becomes what Python prints of it: True, [1, 2]; null is the empty text.
    """
    found: list[str] = []
    for name, value in sorted(hyperparameters.items()):
        found += [f"--{name}" if len(name) > 1 else f"-{name}", _argument(value)]
    return found


def _argument(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={one}" for name, one in sorted(value.items()))
    return "" if value is None else str(value)
