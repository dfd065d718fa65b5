"""Posts answers to the address that Slack gave with a command, and to no other host."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from trainyard.domain.errors import RetryableError

TIMEOUT_SECONDS = 5.0
#: Slack is over its limit, or in trouble.
_LATER = frozenset({429, 500, 502, 503, 504})


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to any address, within the network of the function too."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


class ResponseUrls:
    """The port of answers; `home` is what every response_url begins with."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._opener = urllib.request.build_opener(NoRedirects)

    def send(self, url: str, message: dict[str, Any]) -> str:
        """'' if Slack took it, else why it never will. Raises RetryableError."""
        if not url.startswith(self._home):
            return f"the response_url does not begin with {self._home}"
        headers = {"Content-Type": "application/json; charset=utf-8"}
        data = json.dumps(message).encode()
        request = urllib.request.Request(url, data, headers)  # noqa: S310  # it begins with home
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS):
                return ""
        except urllib.error.HTTPError as refused:
            with refused:
                why = f"Slack answered {refused.code}"
            if refused.code in _LATER:
                raise RetryableError(why) from None
            return why
        except (OSError, HTTPException) as error:
            raise RetryableError(f"Slack cannot be reached: {type(error).__name__}") from None
