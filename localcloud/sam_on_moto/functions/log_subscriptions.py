"""Hands lines of log groups to functions, as subscription filters of CloudWatch Logs do."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from sam_on_moto.functions.registry import Functions, NoSuchFunction, NotAllowed
from sam_on_moto.inside.place import ACCOUNT_ID, REGION
from sam_on_moto.moto_patches.pinned import replace

Judge = Callable[[Any], bool]
_TOKEN = re.compile(r'\s*(\(|\)|\|\||&&|!=|>=|<=|=|>|<|\$[\w.-]*|"[^"]*"|-?\d+(?:\.\d+)?)')


class BadPattern(ValueError):
    """The local cloud does not know such a pattern."""


def install(functions: Functions) -> None:
    """Put it in the place of moto's, which asks its own Lambda. Call once for a server."""
    from moto.awslambda.models import LambdaBackend
    from moto.logs.models import LogsBackend, LogStream

    def put(
        self: Any,
        log_group_name: str,
        filter_name: str,
        filter_pattern: str,
        destination_arn: str,
        role_arn: str,
    ) -> None:
        _put(functions, self, log_group_name, filter_name, filter_pattern, destination_arn)

    def send(
        self: Any,
        function_arn: str,
        filter_name: str,
        log_group_name: str,
        log_stream_name: str,
        log_events: Any,
    ) -> None:
        _send(functions, function_arn, filter_name, log_group_name, log_stream_name, log_events)

    replace(LogsBackend, "put_subscription_filter", put)
    replace(LambdaBackend, "send_log_event", send)
    assert hasattr(LogStream, "_send_log_events"), "moto's LogStream has changed"


def _put(
    functions: Functions, backend: Any, group: str, name: str, pattern: str, destination: str
) -> None:
    from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException

    found = backend.groups.get(group)
    if found is None:
        raise ResourceNotFoundException()
    try:
        source = f"arn:aws:logs:{REGION}:{ACCOUNT_ID}:log-group:{group}:*"
        functions.check_permission(destination, "logs.amazonaws.com", source)
        judge(pattern)
    except (NoSuchFunction, NotAllowed):
        raise InvalidParameterException(
            "Could not execute the lambda function. Make sure you have given CloudWatch Logs "
            "permission to execute your function."
        ) from None
    except BadPattern as bad:
        raise InvalidParameterException(f"Invalid filter pattern: {bad}") from None
    found.put_subscription_filter(name, pattern, destination, "")


def _send(
    functions: Functions, arn: str, name: str, group: str, stream: str, events: list[Any]
) -> None:
    from moto.logs.models import logs_backends

    pattern = logs_backends[ACCOUNT_ID][REGION].groups[group].subscription_filters[name]
    wanted = judge(pattern.filter_pattern)
    matching = [event for event in events if wanted(event["message"])]
    if not matching:
        return
    data = {
        "messageType": "DATA_MESSAGE",
        "owner": ACCOUNT_ID,
        "logGroup": group,
        "logStream": stream,
        "subscriptionFilters": [name],
        "logEvents": matching,
    }
    packed = base64.b64encode(gzip.compress(json.dumps(data).encode())).decode()
    functions.invoke_later(arn, json.dumps({"awslogs": {"data": packed}}).encode())


def judge(pattern: str) -> Judge:
    """Whether a line matches: of JSON, or every line if the pattern is empty. Raises BadPattern."""
    text = pattern.strip()
    if not text:
        return lambda line: True
    if not (text.startswith("{") and text.endswith("}")):
        raise BadPattern(f"{pattern!r} is no JSON pattern")
    tokens, at = [], 0
    inner = text[1:-1].rstrip()
    while at < len(inner):
        found = _TOKEN.match(inner, at)
        if found is None:
            raise BadPattern(f"{inner[at : at + 20]!r} is not understood")
        tokens.append(found[1])
        at = found.end()
    parser = _Parser(tokens)
    wanted = parser.any_of()
    if parser.tokens:
        raise BadPattern(f"{parser.tokens[0]!r} is not expected")
    return lambda line: (document := _document(line)) is not None and wanted(document)


def _document(line: str) -> Any:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class _Parser:
    """`(...) || (... && ...)` over `$.a.b = "x"` and `$.a > 1`."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def any_of(self) -> Judge:
        parts = [self._all_of()]
        while self.tokens[:1] == ["||"]:
            self._take()
            parts.append(self._all_of())
        return lambda document: any(part(document) for part in parts)

    def _all_of(self) -> Judge:
        parts = [self._one()]
        while self.tokens[:1] == ["&&"]:
            self._take()
            parts.append(self._one())
        return lambda document: all(part(document) for part in parts)

    def _one(self) -> Judge:
        if self.tokens[:1] == ["("]:
            self._take()
            inner = self.any_of()
            if self._take() != ")":
                raise BadPattern("a bracket is not closed")
            return inner
        path, word, value = self._take(), self._take(), self._take()
        if not path.startswith("$."):
            raise BadPattern(f"{path!r} is no selector")
        return _comparison(path.removeprefix("$.").split("."), word, value)

    def _take(self) -> str:
        if not self.tokens:
            raise BadPattern("it ends too early")
        return self.tokens.pop(0)


def _comparison(path: list[str], word: str, value: str) -> Judge:
    wanted: Any = value[1:-1] if value.startswith('"') else float(value)
    orders: Mapping[str, Callable[[Any, Any], bool]] = {
        "=": lambda one, other: bool(one == other),
        "!=": lambda one, other: bool(one != other),
        ">": lambda one, other: bool(one > other),
        "<": lambda one, other: bool(one < other),
        ">=": lambda one, other: bool(one >= other),
        "<=": lambda one, other: bool(one <= other),
    }
    if word not in orders or (isinstance(wanted, str) and word not in ("=", "!=")):
        raise BadPattern(f"{word!r} is no comparison for {value}")

    def compare(document: Any) -> bool:
        for key in path:
            document = document.get(key) if isinstance(document, dict) else None
        same = isinstance(document, str) == isinstance(wanted, str) and document is not None
        return same and orders[word](document, wanted)

    return compare
