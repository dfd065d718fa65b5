"""How a request to AWS may fail."""

from __future__ import annotations

import re
from html import unescape

_ERROR = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")


class CannotWrite(Exception):
    """What came cannot be written to the disk."""

    def __init__(self, why: OSError) -> None:
        super().__init__(str(why))
        self.why = why


class Unreachable(Exception):
    """No answer, or one that says try again (5xx, throttling)."""


class Refused(Exception):
    """AWS refused the request for good; the text is AWS's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status = status


def words(text: str) -> str:
    """The code and the message of an XML error; any other text as it is."""
    found = _ERROR.search(text)
    return f"{found[1]}: {unescape(found[2])}" if found else text
