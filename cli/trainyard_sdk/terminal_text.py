"""Makes text of jobs and nodes safe to show: anybody may have written it, and a terminal obeys
control codes.
"""

from __future__ import annotations

import re
from typing import Any

#: Colours (ECMA-48, SGR) do no harm, but a log that is shown in a table has no use for them.
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
#: A progress bar writes over its line; here every state of it gets a line of its own.
_RETURN = re.compile(r"\r+\n?")
#: C0 but tab and newline, DEL, C1, and what turns the direction of writing around (Unicode TR 36).
_COMMAND = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: JSON escapes C0 by itself.
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    r"""`text` without control codes: colours go, other codes are spelt out, ESC as `\x1b`."""
    return _COMMAND.sub(_spelt_out, _RETURN.sub("\n", _COLOUR.sub("", text)))


def plain_document(value: Any) -> Any:
    """A JSON value with every string in it plain, keys included."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [plain_document(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain_document(item) for key, item in value.items()}
    return value


def plain_json(text: str) -> str:
    """JSON with the commands escaped that JSON lets through; it reads back as the same value."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _spelt_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
