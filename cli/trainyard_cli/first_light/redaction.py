"""Removes from a document what must not leave an account: numbers, keys, tokens, hosts, e-mail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

#: Services as they stand in policies: nobody's host.
_PRINCIPALS = (
    "sagemaker",
    "events",
    "states",
    "lambda",
    "ec2",
    "s3",
    "ssm",
    "logs",
    "fsx",
    "cloudformation",
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ENDS = (
    "com|net|org|edu|gov|mil|int|info|io|ai|dev|app|cloud|aws|internal|local|localdomain|lan|"
    "corp|home|intranet|arpa|uk|de|fr|jp|cn|eu|us|ca|au|in"
)
#: Words that name a secret: in the name of a field, and before `=` or `:` in a text.
_NAMES_ONE = (
    r"secret|password|passwd|passphrase|credential|authorization|signature|"
    r"private_?key|api_?key|access_?key(?:_?id)?"
)
#: `tokenCount` is none.
_SECRET_FIELD = re.compile(rf"(?:{_NAMES_ONE})|token(?:_?value)?$")

#: What is looked for, in this order: what comes first may hold what comes later.
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?"
            r"(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            re.S,
        ),
    ),
    ("token", re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}")),
    (
        "secret",
        re.compile(
            rf"(?i)(?P<kept>(?:{_NAMES_ONE}|token)(?:_?value|s)?[\"']?\s?(?:=|:)\s?[\"']?"
            r"(?:(?:bearer|basic)\s+)?)(?P<gone>[^\s\"'&,;<>]+)"
        ),
    ),
    ("secret", re.compile(r"(?i)(?P<kept>\b(?:bearer|basic)\s+)(?P<gone>[A-Za-z0-9._~+/=-]{8,})")),
    # Also without a dot, as at the end of a public key; but no file system's `@tcp`.
    (
        "e-mail",
        re.compile(
            r"[A-Za-z0-9._%+'-]{1,64}@(?!tcp(?![A-Za-z0-9.-]))" rf"(?:{_LABEL}\.){{0,8}}{_LABEL}"
        ),
    ),
    (
        "access-key",
        re.compile(
            r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ANVA|AIPA|APKA|ABIA|ACCA|ASCA)[A-Z0-9]{12,124}"
        ),
    ),
    ("secret", re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+=]{40,}(?![A-Za-z0-9/+=])")),
    ("secret", re.compile(r"(?<![A-Za-z0-9])[0-9a-f]{32,}(?![A-Za-z0-9])")),
    (
        "host",
        re.compile(
            rf"(?<![A-Za-z0-9])(?:{_LABEL}\.){{1,10}}(?:{_ENDS})(?:\.cn)?(?![A-Za-z0-9-])", re.I
        ),
    ),
    ("host", re.compile(r"(?<![A-Za-z0-9])ip(?:-\d{1,3}){4}(?!\d)")),
    ("address", re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    (
        "address",
        re.compile(r"(?<![0-9A-Za-z:])(?:[0-9a-f]{0,4}:){4,7}[0-9a-f]{0,4}(?![0-9A-Za-z:])", re.I),
    ),
    ("account", re.compile(r"(?<!\d)\d{12}(?!\d)")),
    ("account", re.compile(r"(?<!\d)\d{4}-\d{4}-\d{4}(?!\d)")),
)
_STANDS_FOR = re.compile(r"<([a-z-]+)-(\d+)>")
_HARMLESS = frozenset({"127.0.0.1", *(f"{name}.amazonaws.com" for name in _PRINCIPALS)})


def _pattern(word: str, kind: str) -> str:
    """The pattern of a word; a host is found only as a whole, as its name may be a common word."""
    found = re.escape(word)
    return rf"(?<![A-Za-z0-9-]){found}(?![A-Za-z0-9-])" if kind == "host" else found


class Redactor:
    """The same text gets the same stand-in, such as `<account-1>`, so that equal things look equal.

    The text itself is kept nowhere.

    `known` are words of this very run that are to go wherever they stand, by kind; a document that
    was redacted before goes through unchanged, and `seen` (such a document) keeps later stand-ins
    apart from those in it.
    """

    def __init__(self, known: Iterable[tuple[str, str]] = (), seen: Any = None) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = {}
        #: Longest first: one may be a part of another.
        words = sorted(
            ((word, kind) for kind, word in known if len(word) > 3), key=lambda one: -len(one[0])
        )
        self._known = [(kind, re.compile(_pattern(word, kind))) for word, kind in words]
        for text in _texts(seen):
            for kind, number in _STANDS_FOR.findall(text):
                self._last[kind] = max(self._last.get(kind, 0), int(number))

    def document(self, value: Any) -> Any:
        """A JSON value with every text in it redacted, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (list, tuple)):
            return [self.document(item) for item in value]
        if isinstance(value, dict):
            return {self.text(str(key)): self._field(str(key), item) for key, item in value.items()}
        if isinstance(value, int) and not isinstance(value, bool) and 10**11 <= abs(value) < 10**12:
            return self._name("account", str(abs(value)))
        return value

    def _field(self, key: str, value: Any) -> Any:
        if (
            isinstance(value, (str, int))
            and not isinstance(value, bool)
            and value != ""
            and _is_secret(key)
        ):
            return self._name("secret", str(value))
        return self.document(value)

    def text(self, text: str) -> str:
        for kind, pattern in (*self._known, *_RULES):
            text = pattern.sub(self._replacer(kind), text)
        return text

    def _replacer(self, kind: str) -> Callable[[re.Match[str]], str]:
        def replace(found: re.Match[str]) -> str:
            parts = found.groupdict()
            if "gone" in parts:
                return f"{parts['kept']}{self._name(kind, parts['gone'])}"
            return found[0] if found[0].lower() in _HARMLESS else self._name(kind, found[0])

        return replace

    def _name(self, kind: str, text: str) -> str:
        if _STANDS_FOR.fullmatch(text):
            return text
        if (kind, text) not in self._names:
            self._last[kind] = self._last.get(kind, 0) + 1
            self._names[kind, text] = f"<{kind}-{self._last[kind]}>"
        return self._names[kind, text]


def _is_secret(key: str) -> bool:
    spelt = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    return bool(_SECRET_FIELD.search(spelt))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
