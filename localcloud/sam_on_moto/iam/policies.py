"""Evaluates IAM policy documents: which statements match an action on a resource."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["allow", "explicit-deny", "implicit-deny"]
Context = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Unsupported(Exception):
    """A condition operator that is not understood: refused rather than guessed."""

    operator: str

    def __str__(self) -> str:
        return f"the local cloud does not know the IAM condition operator {self.operator}"


def evaluate(
    documents: Iterable[Mapping[str, Any]], action: str, resource: str, context: Context
) -> Verdict:
    """An explicit deny wins over every allow; no allow at all is a deny."""
    allowed = False
    for document in documents:
        for statement in _list(document.get("Statement", [])):
            if not _applies(statement, action, resource, context):
                continue
            if statement["Effect"] == "Deny":
                return "explicit-deny"
            allowed = True
    return "allow" if allowed else "implicit-deny"


def _applies(statement: Mapping[str, Any], action: str, resource: str, context: Context) -> bool:
    if "Action" in statement:
        hit = matches(statement["Action"], action, ignore_case=True)
    else:
        hit = not matches(statement.get("NotAction", []), action, ignore_case=True)
    if not hit:
        return False
    if "NotResource" in statement:
        hit = not matches(statement["NotResource"], resource)
    else:
        hit = matches(statement.get("Resource", "*"), resource)
    return hit and all(
        _condition(op, pairs, context) for op, pairs in (statement.get("Condition") or {}).items()
    )


def matches(patterns: str | list[str], value: str, *, ignore_case: bool = False) -> bool:
    """IAM's wildcards: `*` any text, `?` one character."""
    return any(_compiled(p, ignore_case).fullmatch(value) for p in _list(patterns))


@functools.lru_cache(4096)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    text = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _condition(operator: str, pairs: Mapping[str, Any], context: Context) -> bool:
    every = operator.startswith("ForAllValues:")
    some = operator.startswith("ForAnyValue:")
    name = operator.split(":", 1)[-1]
    if_exists = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    for key, wanted in pairs.items():
        have = context.get(key.lower())
        expected = [_expand(_text(w), context) for w in _list(wanted)]
        if name == "Null":
            if (have is None) != (expected[0] == "true"):
                return False
            continue
        if have is None:
            if if_exists or every or (name.startswith(("StringNot", "ArnNot")) and not some):
                continue
            return False
        values = [have] if isinstance(have, str) else have
        results = [_compare(name, value, expected) for value in values]
        if not (all(results) if every else any(results)):
            return False
    return True


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _expand(text: str, context: Context) -> str:
    """Policy variables: ${aws:PrincipalAccount} is that key of the request's context."""
    return re.sub(r"\$\{([\w:/-]+)\}", lambda m: str(context.get(m[1].lower(), m[0])), text)


def _compare(operator: str, value: str, expected: list[str]) -> bool:
    match operator:
        case "StringEquals":
            return value in expected
        case "StringNotEquals":
            return value not in expected
        case "StringEqualsIgnoreCase":
            return value.lower() in [e.lower() for e in expected]
        case "Bool":
            return value.lower() in [e.lower() for e in expected]
        case "StringLike" | "ArnLike" | "ArnEquals":
            return matches(expected, value)
        case "StringNotLike" | "ArnNotLike" | "ArnNotEquals":
            return not matches(expected, value)
    raise Unsupported(operator)
