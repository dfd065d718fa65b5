"""Calls of Slack's Web API with the app's own token: https://docs.slack.dev/apis/web-api."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Protocol

from trainyard.chat.replies import NoRedirects
from trainyard.domain.errors import RetryableError, TrainyardError

TIMEOUT_SECONDS = 5.0
#: Where a 429 does not say for how long; and the longest that one is believed.
_PAUSE_SECONDS, _MOST_SECONDS = 30, 86_400
_LIMITED = frozenset({"ratelimited", "rate_limited"})
#: Slack is in trouble, and may take the same call later.
_LATER = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})


class Views(Protocol):
    """Slack's Web API, as far as forms and homes need it."""

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Raises Limited, SlackRefused, RetryableError."""
        ...


class Limited(TrainyardError):
    """Slack wants no call for so many seconds."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Slack wants no call for {seconds} s.")
        self.seconds = seconds


class SlackRefused(TrainyardError):
    """Slack does not take the call; `error` is its own word."""

    def __init__(self, error: str) -> None:
        super().__init__(f"Slack refused: {error}")
        self.error = error


class WebApi:
    """`home` is what the addresses of all methods begin with; `token` reads the bot's token."""

    def __init__(self, home: str, token: Callable[[], str | None]) -> None:
        self._home, self._token = home, token
        self._opener = urllib.request.build_opener(NoRedirects)

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of one that Slack took.

        Raises Limited, SlackRefused, and RetryableError if Slack may take it later.
        """
        token = (self._token() or "").strip()
        if not token.startswith("xox"):
            raise SlackRefused("the secret of SlackBotTokenArn holds no token of a bot")
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Authorization": f"Bearer {token}",
        }
        request = urllib.request.Request(  # noqa: S310  # home is a parameter of the stack
            self._home + method, json.dumps(arguments).encode(), headers
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return _taken(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                raise _refusal(refused) from None
        except (OSError, HTTPException) as error:
            raise RetryableError(f"Slack cannot be reached: {type(error).__name__}") from None


def _refusal(refused: urllib.error.HTTPError) -> TrainyardError:
    if refused.code == 429:
        said = refused.headers.get("Retry-After", "")
        seconds = int(said) if said.isascii() and said.isdecimal() else _PAUSE_SECONDS
        return Limited(min(max(seconds, 1), _MOST_SECONDS))
    return RetryableError(f"Slack answered {refused.code}")


def _taken(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RetryableError("Slack answered with something else than JSON")
    if answer.get("ok") is True:
        return answer
    error = str(answer.get("error") or "no word why")[:100]
    if error in _LIMITED:
        raise Limited(_PAUSE_SECONDS)
    if error in _LATER:
        raise RetryableError(f"Slack answered {error}")
    raise SlackRefused(error)
