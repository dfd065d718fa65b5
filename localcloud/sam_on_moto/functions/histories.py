"""Answers an execution's history in pages, either way round; moto gives all of it at once.

A whole one of 25,000 events takes a busy machine longer than a client waits for an answer.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sam_on_moto.moto_patches.pinned import replace

DEFAULT_EVENTS = 100
MOST_EVENTS = 1000  # of one answer; botocore's clients refuse to ask for more
_DATA = {"input", "output"}


class BadToken(ValueError):
    """No page of this history begins there."""


def page(
    events: Sequence[Mapping[str, Any]],
    *,
    most: int = 0,
    token: str | None = None,
    backwards: bool = False,
    data: bool = True,
) -> dict[str, Any]:
    """The answer of GetExecutionHistory: up to `most` events, and the token of the next page.

    Event n has the id n, so a page that is asked for while the execution goes on neither repeats
    nor leaves out any. Raises BadToken.
    """
    most = min(most or DEFAULT_EVENTS, MOST_EVENTS)
    begins = (len(events) if backwards else 1) if token is None else _begin(token, backwards)
    if not 0 <= begins <= len(events) + 1:
        raise BadToken(token)
    if backwards:
        chosen = list(reversed(events[max(begins - most, 0) : begins]))
        follows = begins - most
    else:
        chosen = list(events[begins - 1 : begins - 1 + most])
        follows = begins + most if begins + most <= len(events) else 0
    answer: dict[str, Any] = {"events": chosen if data else [_without_data(e) for e in chosen]}
    if follows > 0:
        answer["nextToken"] = _token(follows, backwards)
    return answer


def install() -> None:
    """Hook moto's answer; once per process."""
    from moto.core.responses import ActionResult
    from moto.stepfunctions.exceptions import InvalidToken
    from moto.stepfunctions.responses import StepFunctionResponse

    def get(self: Any) -> Any:
        arn = self._get_param("executionArn")
        whole = self.stepfunction_backend.get_execution_history(arn)["events"]
        try:
            found = page(
                whole,
                most=int(self._get_param("maxResults") or 0),
                token=self._get_param("nextToken"),
                backwards=bool(self._get_param("reverseOrder")),
                data=self._get_param("includeExecutionData") is not False,
            )
        except BadToken as wrong:
            raise InvalidToken(str(wrong)) from None
        return ActionResult(found)

    replace(StepFunctionResponse, "get_execution_history", get, parameters=("self",))


def _token(begins: int, backwards: bool) -> str:
    return base64.urlsafe_b64encode(json.dumps([begins, backwards]).encode()).decode()


def _begin(token: str, backwards: bool) -> int:
    try:
        begins, was_backwards = json.loads(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError, TypeError):
        raise BadToken(token) from None
    if was_backwards is not backwards or type(begins) is not int or begins < 1:
        raise BadToken(token)
    return begins


def _without_data(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {key: part for key, part in value.items() if key not in _DATA}
        if isinstance(value, Mapping)
        else value
        for name, value in event.items()
    }
