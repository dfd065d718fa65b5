"""One line of a `.gitignore`, read as git reads it, asked about one file or directory at a time.

A library that is asked about whole paths lets a pattern for a directory decide what lies below it.
In git it does not: what is below asks for itself (docs/adr/0032-a-directory-goes-up.md).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

_CLASSES = {
    name.encode(): frozenset(signs.encode())
    for name, signs in {
        "alpha": string.ascii_letters,
        "digit": string.digits,
        "alnum": string.ascii_letters + string.digits,
        "upper": string.ascii_uppercase,
        "lower": string.ascii_lowercase,
        "punct": string.punctuation,
        "space": string.whitespace,
        "blank": " \t",
        "xdigit": string.hexdigits,
        "cntrl": "".join(map(chr, [*range(32), 127])),
        "print": "".join(map(chr, range(32, 127))),
        "graph": "".join(map(chr, range(33, 127))),
    }.items()
}
_ALL = frozenset(range(256))
_SLASH = ord("/")


@dataclass(frozen=True)
class Pattern:
    """`ignores` is False for a line that begins with `!`."""

    expression: re.Pattern[bytes]
    ignores: bool
    directories_only: bool
    #: It has no slash inside, so it is about names in any directory below.
    by_name: bool

    def matches(self, path: bytes, *, directory: bool) -> bool:
        """`path` is relative to the directory of the file that has the line."""
        if self.directories_only and not directory:
            return False
        about = path.rpartition(b"/")[2] if self.by_name else path
        return self.expression.fullmatch(about) is not None


def parse(content: bytes) -> list[Pattern]:
    """The patterns of a file, in its order; a line that matches nothing is left out."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [found for line in lines if (found := _pattern(line.removesuffix(b"\r")))]


def decision(patterns: Sequence[Pattern], path: bytes, *, directory: bool) -> bool | None:
    """Whether the patterns ignore it; None: they say nothing. The last that matches decides."""
    for pattern in reversed(patterns):
        if pattern.matches(path, directory=directory):
            return pattern.ignores
    return None


def _pattern(line: bytes) -> Pattern | None:
    if line.startswith(b"#"):
        return None
    text = _without_blanks(line)
    ignores = not text.startswith(b"!")
    text = text if ignores else text[1:]
    directories_only = text.endswith(b"/")
    text = text[:-1] if directories_only else text
    by_name = b"/" not in text
    text = text.removeprefix(b"/")
    if not text:
        return None
    try:
        expression = re.compile(_Translation(text, by_name).regex(), re.DOTALL)
    except _MatchesNothing:
        return None
    return Pattern(expression, ignores, directories_only, by_name)


def _without_blanks(line: bytes) -> bytes:
    """Blanks at the end count only after a backslash."""
    kept = line.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if backslashes % 2 and len(kept) < len(line) else kept


class _MatchesNothing(Exception):
    """An open bracket, or a backslash at the end: git takes the line for one that never matches."""


class _Translation:
    """From git's wildcards to a regular expression."""

    def __init__(self, text: bytes, by_name: bool) -> None:
        self._text, self._by_name, self._at = text, by_name, 0

    def regex(self) -> bytes:
        parts = []
        while self._at < len(self._text):
            parts.append(self._part())
        return b"".join(parts)

    def _part(self) -> bytes:
        sign = self._next()
        if sign == ord("*"):
            return self._stars()
        if sign == ord("?"):
            return b"[^/]"
        if sign == ord("["):
            return self._bracket()
        if sign == ord("\\"):
            sign = self._next()
        return re.escape(bytes([sign]))

    def _next(self) -> int:
        if self._at >= len(self._text):
            raise _MatchesNothing
        self._at += 1
        return self._text[self._at - 1]

    def _stars(self) -> bytes:
        start = self._at - 1
        while self._text[self._at : self._at + 1] == b"*":
            self._at += 1
        begins = start == 0 or self._text[start - 1] == _SLASH
        rest = self._text[self._at :]
        if self._at - start < 2 or not begins or self._by_name:
            return b"[^/]*"
        if rest.startswith(b"/"):  # any number of directories, or none
            self._at += 1
            return b"(?:.*/)?"
        return b"[^/]*" if rest else b".*"

    def _bracket(self) -> bytes:
        negated = self._text[self._at : self._at + 1] in (b"!", b"^")
        self._at += negated
        found: set[int] = set()
        before: int | None = None
        first = True
        while (sign := self._next()) != ord("]") or first:
            first = False
            before = self._member(sign, before, found)
        allowed = (_ALL - found if negated else found) - {_SLASH}
        if not allowed:
            raise _MatchesNothing
        return b"[" + b"".join(re.escape(bytes([one])) for one in sorted(allowed)) + b"]"

    def _member(self, sign: int, before: int | None, found: set[int]) -> int | None:
        """Add what is here to the set; return the sign that a range may begin with."""
        ahead = self._text[self._at : self._at + 1]
        if sign == ord("-") and before is not None and ahead not in (b"", b"]"):
            last = self._next()
            found.update(range(before, (self._next() if last == ord("\\") else last) + 1))
            return None
        if sign == ord("[") and ahead == b":":
            return self._named_class(found)
        sign = self._next() if sign == ord("\\") else sign
        found.add(sign)
        return sign

    def _named_class(self, found: set[int]) -> int | None:
        end = self._text.find(b"]", self._at + 1)
        if end < 0:
            raise _MatchesNothing
        if end == self._at + 1 or self._text[end - 1 : end] != b":":  # a plain bracket after all
            found.add(ord("["))
            return ord("[")
        name = self._text[self._at + 1 : end - 1]
        if name not in _CLASSES:
            raise _MatchesNothing
        self._at = end + 1
        found.update(_CLASSES[name])
        return None
