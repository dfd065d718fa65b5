"""EventBridge's event patterns: does an event match?

moto's own matcher is wrong on arrays of objects, and takes 1 for true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_MISSING = object()
_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def matches(event: Any, pattern: Mapping[str, Any]) -> bool:
    """Every key of the pattern must match.

    An array in the event matches when one of its elements does.
    """
    return all(_key_matches(event, key, wanted) for key, wanted in pattern.items())


def _key_matches(event: Any, key: str, wanted: Any) -> bool:
    if key == "$or":
        return any(matches(event, alternative) for alternative in wanted)
    value = event.get(key, _MISSING) if isinstance(event, Mapping) else _MISSING
    if isinstance(wanted, Mapping):
        if isinstance(value, list):
            return any(matches(element, wanted) for element in value)
        return matches(value if isinstance(value, Mapping) else {}, wanted)
    if isinstance(value, Mapping):
        value = _MISSING  # only leaves are compared with filters
    candidates = (
        value if isinstance(value, list) and value else [_MISSING if value == [] else value]
    )
    return any(_leaf_matches(candidate, rule) for candidate in candidates for rule in wanted)


def _leaf_matches(value: Any, rule: Any) -> bool:
    if not isinstance(rule, Mapping):
        return (
            value is not _MISSING
            and isinstance(value, bool) == isinstance(rule, bool)
            and bool(value == rule)
        )
    ((kind, argument),) = rule.items()
    if kind == "exists":
        return (value is not _MISSING) == bool(argument)
    if value is _MISSING:
        return False
    return _filter(value, kind, argument)


def _filter(value: Any, kind: str, argument: Any) -> bool:
    match kind:
        case "prefix" | "suffix":
            return isinstance(value, str) and _affix(value, kind, argument)
        case "equals-ignore-case":
            return isinstance(value, str) and value.lower() == argument.lower()
        case "wildcard":
            return (
                isinstance(value, str)
                and re.fullmatch(".*".join(map(re.escape, argument.split("*"))), value, re.DOTALL)
                is not None
            )
        case "numeric":
            pairs = zip(argument[::2], argument[1::2], strict=True)
            return (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and all(_NUMERIC[op](value, bound) for op, bound in pairs)
            )
        case "anything-but":
            if isinstance(argument, Mapping):
                ((inner, texts),) = argument.items()
                return not any(
                    _filter(value, inner, text)
                    for text in (texts if isinstance(texts, list) else [texts])
                )
            return value not in (argument if isinstance(argument, list) else [argument])
    raise ValueError(f"the local cloud does not know the event pattern filter {kind!r}")


def _affix(value: str, kind: str, argument: Any) -> bool:
    if isinstance(argument, Mapping):
        value, argument = value.lower(), argument["equals-ignore-case"].lower()
    return value.startswith(argument) if kind == "prefix" else value.endswith(argument)


def check(pattern: Mapping[str, Any]) -> None:
    """Raises ValueError for a filter that is not supported.

    So a rule fails when it is deployed, and not silently later.
    """
    for key, wanted in pattern.items():
        if key == "$or":
            for alternative in wanted:
                check(alternative)
        elif isinstance(wanted, Mapping):
            check(wanted)
        else:
            _check_rules(wanted)


def _check_rules(rules: list[Any]) -> None:
    for rule in rules:
        if isinstance(rule, Mapping):
            ((kind, argument),) = rule.items()
            if kind != "exists":
                _filter(0 if kind == "numeric" else "", kind, argument)
