"""A command's answer in few characters, for a way back that keeps only the first of them.

Standard library only, so that the agent's command line starts fast.
"""

from __future__ import annotations

import base64
import binascii
import zlib

#: Before a command's words: its answer may come packed.
OPTION = "--packed"
#: What is shorter stays as it is.
SHORT_CHARACTERS = 8_000
_MARK = "packed:"
#: No answer of an agent is larger.
_LARGEST = 64 * 1024 * 1024


class NotWhole(ValueError):
    """A packed text of which a part is missing."""


def pack(text: str) -> str:
    """The text, packed if it is long: a log shrinks to a third or less."""
    if len(text) <= SHORT_CHARACTERS:
        return text
    return _MARK + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> str:
    """What was packed; a text that is not packed is itself. Raises NotWhole."""
    if not text.startswith(_MARK):
        return text
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text[len(_MARK) :].strip()), _LARGEST)
        whole = data.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as torn:
        raise NotWhole(str(torn)) from torn
    if not reader.eof:
        raise NotWhole("its end is missing")
    return whole
